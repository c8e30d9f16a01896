"""What well-known functions, methods and magics do to what they are handed: the one list of it.

Names alone, whoever has them: what a person's own code defines goes before what stands here.
"""

# Methods of builtin containers, frames and arrays that change their object.
MUTATING_METHODS = frozenset(
    {
        "append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse",
        "update", "setdefault", "add", "discard", "difference_update", "intersection_update",
        "symmetric_difference_update", "appendleft", "popleft", "extendleft", "rotate",
        "fill", "put", "itemset", "resize", "setflags", "partition", "set_value", "setfield",
        "move_to_end", "byteswap", "insert_column", "replace_column", "drop_in_place",
        "__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__",
        "subtract", "write", "writelines", "truncate", "seek",
    }
)  # fmt: skip

# Functions of libraries that change their first argument.
CHANGING_FUNCTIONS = frozenset(
    {
        "shuffle", "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort",
        "insort_left", "insort_right", "copyto", "put", "place", "putmask", "fill_diagonal",
        "put_along_axis", "setattr", "delattr", "next", "setitem", "delitem", "iadd", "isub",
        "imul", "iconcat", "ior", "iand", "at",
    }
)  # fmt: skip

# Methods that leave their object as it is, of builtin values, frames, charts and figures.
PURE_METHODS = frozenset(
    {
        "head", "tail", "describe", "info", "sample", "groupby", "agg", "aggregate", "sum", "mean",
        "median", "min", "max", "std", "var", "count", "size", "nunique", "unique", "value_counts",
        "isna", "isnull", "notna", "notnull", "fillna", "dropna", "drop", "rename", "assign",
        "reset_index", "set_index", "pivot", "pivot_table", "melt", "stack", "unstack", "merge",
        "join", "query", "sort_values", "sort_index", "astype", "apply", "map", "transform",
        "pipe", "filter", "where", "mask", "clip", "round", "abs", "corr", "cov", "quantile",
        "rank", "diff", "shift", "pct_change", "cumsum", "cumprod", "cummax", "cummin", "rolling",
        "expanding", "ewm", "resample", "nlargest", "nsmallest", "duplicated", "drop_duplicates",
        "isin", "between", "replace", "explode", "to_frame", "to_dict", "to_list", "tolist",
        "to_numpy", "to_csv", "to_parquet", "to_json", "to_excel", "to_string", "to_markdown",
        "to_html", "to_pandas", "to_series", "to_datetime", "copy", "equals", "items", "keys",
        "values", "get", "index", "split", "strip", "lstrip", "rstrip", "lower", "upper", "title",
        "startswith", "endswith", "format", "encode", "decode", "find", "plot", "hist", "boxplot",
        "scatter", "line", "bar", "show", "mark_line", "mark_bar", "mark_point", "mark_area",
        "mark_rect", "mark_circle", "mark_tick", "mark_rule", "mark_text", "properties",
        "interactive", "facet", "select", "with_columns", "collect", "lazy", "reshape",
        "ravel", "flatten", "dot", "all", "any", "argmax", "argmin", "argsort", "nonzero",
        "isoformat", "strftime", "date", "time", "total_seconds", "union", "intersection",
        "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
        "idxmax", "idxmin", "itertuples", "iterrows", "select_dtypes", "sub", "mul", "div",
        "savefig", "save", "bit_length", "is_integer", "month_name", "day_name", "contains", "cat",
        "len", "extract", "zfill", "combine_first", "first", "last", "nth", "mode", "skew", "kurt",
        "squeeze", "xs", "eval", "compare", "align", "reindex", "tz_localize", "tz_convert",
    }
)  # fmt: skip

# Methods that draw what they are called on: a change of what they give is none of that.
DRAWING_METHODS = frozenset({"plot", "hist", "boxplot"})

# Builtins and the like whose result shares nothing with what they are handed.
ATOMIC_FUNCTIONS = frozenset(
    {
        "len", "int", "float", "str", "bool", "complex", "bytes", "abs", "round", "range", "hash",
        "ord", "chr", "isinstance", "issubclass", "callable", "hasattr", "type", "repr", "format",
        "bin", "hex", "oct", "id", "all", "any", "divmod", "pow", "print", "deepcopy", "display",
    }
)  # fmt: skip
# Those whose result holds the elements of what they are handed.
COPYING_FUNCTIONS = frozenset(
    {"list", "dict", "set", "tuple", "frozenset", "sorted", "sum", "bytearray"}
)

# What gives something that moves on when it is read: functions, methods of whatever has them, and
# modules that give little else.
STREAM_FUNCTIONS = frozenset(
    {
        "iter", "aiter", "map", "filter", "zip", "enumerate", "reversed", "open", "fdopen",
        "reader", "DictReader", "default_rng", "RandomState", "Random", "SystemRandom",
        "Generator", "SeedSequence", "PCG64", "MT19937", "urlopen", "Popen", "defaultdict",
        "iglob", "scandir", "walk", "finditer", "iterparse", "connect",
        "as_completed", "ParquetFile", "ExcelFile", "HDFStore", "File", "nditer",
    }
)  # fmt: skip
STREAM_METHODS = frozenset(
    {
        "iterrows", "itertuples", "iteritems", "finditer", "scandir", "iterdir", "glob", "rglob",
        "walk", "execute", "executemany", "cursor", "iter_rows", "iter_batches", "iter_slices",
        "iter_lines", "iter_content", "open", "connect", "default_rng", "fetch_record_batch",
        "to_batches", "imap", "imap_unordered", "__iter__", "spawn", "sql",
    }
)  # fmt: skip
STREAM_MODULES = frozenset(
    {
        "itertools", "io", "tempfile", "sqlite3", "duckdb", "zipfile", "tarfile", "queue",
        "threading", "asyncio", "socket", "shelve", "subprocess", "more_itertools", "contextvars",
        "multiprocessing", "gzip", "bz2", "lzma", "mmap", "selectors", "http", "urllib",
    }
)  # fmt: skip
# Modules whose functions, but for those above, give values that stay as they are when read.
VALUE_MODULES = frozenset(
    {
        "pandas", "numpy", "math", "cmath", "statistics", "json", "datetime", "pathlib", "re",
        "collections", "polars", "altair", "plotly", "matplotlib", "seaborn", "scipy", "sklearn",
        "statsmodels", "decimal", "fractions", "functools", "operator", "string", "textwrap",
        "copy", "parsimony_kernel", "IPython", "time", "os", "sys", "hashlib", "random", "uuid",
        "calendar", "zoneinfo", "dataclasses", "enum", "typing", "types", "warnings", "logging",
        "glob", "shutil", "heapq", "bisect", "array", "struct", "base64", "pickle", "csv",
        "unicodedata", "html", "inspect", "ast", "platform", "locale", "getpass", "pprint",
        "pyarrow", "yaml", "tomllib", "dateutil", "pytz", "abc", "numbers", "traceback", "gc",
    }
)  # fmt: skip
# What gives something that shows what another object holds, as that is when one looks.
VIEW_METHODS = frozenset(
    {"keys", "values", "items", "groupby", "rolling", "expanding", "ewm", "resample", "lazy"}
)
VIEW_ATTRIBUTES = frozenset({"loc", "iloc", "at", "iat", "str", "dt", "flat"})
# What makes the random numbers of a library come again as they came.
SEEDING_FUNCTIONS = frozenset(
    {"seed", "setstate", "set_state", "manual_seed", "set_random_seed", "set_seed"}
)

# Functions that run text, and those that give the names of the notebook as a mapping.
RUN_TEXT = frozenset({"exec", "eval", "execfile", "run_cell", "run_code", "ex", "safe_execfile"})
NAMESPACES = frozenset({"globals", "locals", "vars"})

# How a magic looks after IPython's transforms.
MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic"})
# Magics that run their text as a cell of the notebook, and those that run it and bind nothing.
TEXT_MAGICS = frozenset({"time", "prun", "capture", "memit", "mprun", "lprun", "debug"})
TIMING_MAGICS = frozenset({"timeit"})
# Those that change neither variables nor the world outside, and those that change that alone.
QUIET_MAGICS = frozenset(
    {
        "ls", "ll", "pwd", "matplotlib", "load_ext", "reload_ext", "unload_ext", "config", "who",
        "whos", "who_ls", "pip", "conda", "mamba", "uv", "precision", "html", "HTML", "markdown",
        "latex", "svg", "autoreload", "lsmagic", "quickref", "history", "hist", "pinfo", "pinfo2",
        "pdoc", "psource", "pfile", "colors", "xmode", "cat", "less", "more", "dirs",
        "javascript", "js", "page", "pprint", "doctest_mode", "automagic", "autosave", "agent",
    }
)  # fmt: skip
OUTSIDE_MAGICS = frozenset(
    {
        "cd", "env", "set_env", "alias", "bash", "sh", "writefile", "file", "magic", "logstart",
        "logstop", "mkdir", "cp", "mv", "rm", "rmdir", "popd", "pushd", "system", "sx",
        "notebook", "gui",
    }
)  # fmt: skip
