"""Calls by name: what they do with a frame, and which of what they take are its columns.

Values only. A call that stands nowhere here may do anything.
"""

import builtins

# The parameters of a call that are columns, in order; ``None`` is something else.
TAKES: dict[str, tuple[str | None, ...]] = {
    "drop": (None,),
    "drop_duplicates": ("subset",),
    "dropna": (),
    "duplicated": ("subset",),
    "groupby": ("by",),
    "melt": ("id_vars", "value_vars"),
    "nlargest": (None, "columns"),
    "nsmallest": (None, "columns"),
    "pivot": (),
    "pivot_table": ("values", "index", "columns"),
    "resample": (None,),
    "rolling": (None,),
    "set_index": ("keys",),
    "sort_values": ("by",),
    "value_counts": ("subset",),
}
BY_KEYWORD: dict[str, tuple[str, ...]] = {
    "drop": ("columns",),
    "dropna": ("subset",),
    "pivot": ("columns", "index", "values"),
    "resample": ("on",),
    "rolling": ("on",),
}
LEVELS_TOO = frozenset({"groupby", "sort_values", "pivot_table", "pivot"})
GROUPING = frozenset({"groupby", "resample", "rolling", "expanding"})
AGGREGATING = frozenset({"agg", "aggregate"})
# These give a frame with no column that was not there.
KEEPING = frozenset(
    {
        "copy", "drop_duplicates", "dropna", "fillna", "head", "nlargest", "nsmallest", "query",
        "sample", "sort_index", "sort_values", "tail", "truncate", "convert_dtypes", "round",
    }
)  # fmt: skip
# These leave their frame as it is.
READING = KEEPING | frozenset(TAKES) | GROUPING | AGGREGATING | frozenset(
    {
        "T", "abs", "all", "any", "apply", "applymap", "assign", "astype", "at", "attrs", "axes",
        "bfill", "columns", "corr", "corrwith", "count", "cov", "cummax", "cummin", "cumprod",
        "cumsum", "describe", "diff", "drop", "dtypes", "empty", "eq", "explode", "ffill",
        "filter", "ge", "get", "group_by", "gt", "hist", "iat", "idxmax", "idxmin", "iloc",
        "index", "info", "isin", "isna", "isnull", "items", "iterrows", "itertuples", "join",
        "keys", "kurt", "le", "loc", "lt", "map", "mask", "max", "mean", "median", "melt",
        "memory_usage", "merge", "min", "mode", "mul", "ndim", "ne", "notna", "notnull",
        "nunique", "pct_change", "plot", "prod", "quantile", "rank", "reindex", "rename",
        "replace", "reset_index", "select", "select_dtypes", "sem", "shape", "shift", "size",
        "skew", "sort", "stack", "std", "style", "sub", "sum", "to_clipboard", "to_csv",
        "to_dict", "to_excel", "to_feather", "to_html", "to_json", "to_latex", "to_markdown",
        "to_numpy", "to_parquet", "to_pickle", "to_records", "to_string", "transform",
        "transpose", "unstack", "values", "var", "where", "with_columns", "xs",
    }
)  # fmt: skip
HARMLESS = (frozenset(dir(builtins)) | {"display"}) - {
    "__import__", "compile", "delattr", "eval", "exec", "getattr", "globals", "locals",
    "setattr", "vars",
}  # fmt: skip
LIBRARIES = frozenset(
    {"alt", "altair", "np", "numpy", "pd", "pandas", "pl", "plt", "polars", "px", "sns"}
)
