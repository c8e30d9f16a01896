"""What is known to reach outside a notebook, by its full name. Data, for ``gate.call_reaches``."""

import re

from parsimony_kernel.core.reach import ReachKind

_SHELL, _NETWORK, _DELETION = ReachKind.shell, ReachKind.network, ReachKind.deletion
_INSTALLATION, _SECRET = ReachKind.installation, ReachKind.secret
_PROCESS, _DYNAMIC = ReachKind.process, ReachKind.dynamic_code
_FORGETTING = ReachKind.forgetting

# Whatever is called in these modules. The longest name counts.
MODULES: dict[str, ReachKind] = {
    **dict.fromkeys(("subprocess", "pty", "pexpect", "sh", "plumbum", "fabric", "invoke"), _SHELL),
    **dict.fromkeys(
        (
            "socket", "socketserver", "ssl", "http.client", "http.server", "urllib.request",
            "urllib3", "requests", "requests_cache", "httpx", "httplib2", "aiohttp", "ftplib",
            "smtplib", "poplib", "imaplib", "telnetlib", "nntplib", "xmlrpc.client", "paramiko",
            "asyncssh", "boto3", "botocore", "aiobotocore", "websockets", "websocket", "pycurl",
            "s3fs", "gcsfs", "adlfs", "openai", "anthropic", "litellm", "cohere", "mistralai",
            "google.generativeai", "google.cloud", "googleapiclient", "gspread", "azure",
            "huggingface_hub", "kaggle", "yfinance", "pandas_datareader", "wbgapi", "fredapi",
            "tweepy", "praw", "slack_sdk", "twilio", "selenium", "playwright", "grpc",
            "pymongo", "redis", "psycopg", "psycopg2", "pymysql", "MySQLdb", "mysql.connector",
            "snowflake.connector", "clickhouse_connect", "pyodbc", "oracledb", "asyncpg",
            "webbrowser", "wget", "gdown", "kagglehub", "pandas_gbq",
        ),
        _NETWORK,
    ),
    **dict.fromkeys(
        ("pip", "ensurepip", "micropip", "piplite", "conda.cli", "easy_install"), _INSTALLATION
    ),
    **dict.fromkeys(("keyring", "dotenv", "hvac", "netrc", "google.colab.userdata"), _SECRET),
    **dict.fromkeys(("ctypes", "cffi", "signal"), _PROCESS),
    **dict.fromkeys(("runpy", "code", "codeop", "marshal"), _DYNAMIC),
    "send2trash": _DELETION,
}  # fmt: skip

# What does nothing in a module that otherwise reaches, and what its calls give is of no interest.
HARMLESS = frozenset(
    {
        "socket.gethostname", "socket.inet_aton", "socket.inet_ntoa", "socket.htons",
        "redis.exceptions", "ssl.SSLError", "signal.strsignal", "signal.getsignal",
        "signal.default_int_handler", "subprocess.list2cmdline", "urllib3.disable_warnings",
        "subprocess.CalledProcessError", "subprocess.TimeoutExpired", "marshal.dumps",
        "ctypes.sizeof", "ctypes.c_int", "ctypes.c_double", "ctypes.c_float", "ctypes.c_char_p",
        "urllib.request.pathname2url", "urllib.request.url2pathname", "requests.utils",
        "requests.exceptions", "httpx.URL", "httpx.Timeout", "aiohttp.ClientTimeout",
    }
)  # fmt: skip

CALLS: dict[str, ReachKind] = {
    **{
        f"os.{name}": _SHELL
        for name in (
            "system", "popen", "startfile", "posix_spawn", "posix_spawnp", "spawnl", "spawnle",
            "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe",
        )
    },
    "asyncio.create_subprocess_exec": _SHELL,
    "asyncio.create_subprocess_shell": _SHELL,
    **{
        f"asyncio.{name}": _NETWORK
        for name in ("open_connection", "start_server", "open_unix_connection")
    },
    **dict.fromkeys(
        (
            "seaborn.load_dataset", "statsmodels.datasets.get_rdataset", "nltk.download",
            "spacy.cli.download", "torch.hub.load", "torch.hub.load_state_dict_from_url",
            "datasets.load_dataset", "gensim.downloader.load",
            "statsmodels.api.datasets.get_rdataset",
            "pooch.retrieve", "pyarrow.fs.S3FileSystem", "pyarrow.fs.GcsFileSystem",
            "pyarrow.fs.HadoopFileSystem", "transformers.pipeline",
            "urllib.urlopen", "urllib.urlretrieve",
        ),
        _NETWORK,
    ),
    **{
        f"os.{name}": _DELETION
        for name in (
            "remove", "unlink", "rmdir", "removedirs", "rename", "renames", "replace", "truncate",
        )
    },
    "shutil.rmtree": _DELETION,
    "shutil.move": _DELETION,
    **{
        f"os.{name}": _PROCESS
        for name in (
            "kill", "killpg", "_exit", "abort", "fork", "forkpty", "execl", "execle", "execlp",
            "execlpe", "execv", "execve", "execvp", "execvpe", "setuid", "setgid", "chroot",
        )
    },
    "resource.setrlimit": _PROCESS,
    "psutil.Process().kill": _PROCESS,
    "psutil.Process().terminate": _PROCESS,
    "psutil.Process().suspend": _PROCESS,
    "psutil.Process().send_signal": _PROCESS,
    "jupyter_core.paths.jupyter_data_dir": _SECRET,
    "jupyter_core.paths.jupyter_runtime_dir": _SECRET,
    "jupyter_core.paths.jupyter_config_dir": _SECRET,
    "ipykernel.connect.get_connection_file": _SECRET,
    "ipykernel.get_connection_file": _SECRET,
    "types.FunctionType": _DYNAMIC,
    "types.CodeType": _DYNAMIC,
    "importlib.util.spec_from_file_location": _DYNAMIC,
    "importlib.machinery.SourceFileLoader": _DYNAMIC,
    "importlib.machinery.SourcelessFileLoader": _DYNAMIC,
    "importlib.machinery.ExtensionFileLoader": _DYNAMIC,
    "imp.load_source": _DYNAMIC,
    "imp.load_module": _DYNAMIC,
    "zipimport.zipimporter": _DYNAMIC,
    "site.addsitedir": _DYNAMIC,
    "get_ipython().reset": _FORGETTING,
    **{
        f"{namespace}.clear": _FORGETTING
        for namespace in (
            "globals()", "locals()", "vars()", "__main__.__dict__", "get_ipython().user_ns",
            "get_ipython().user_global_ns", "get_ipython().user_module.__dict__",
        )
    },
}  # fmt: skip

# What makes objects of data, which may hold code that then runs.
UNPACKING = frozenset(
    {
        *(
            f"{module}.{name}"
            for module in ("pickle", "_pickle", "cPickle", "dill", "dill._dill", "cloudpickle")
            for name in ("load", "loads", "_load", "_loads", "Unpickler", "_Unpickler")
        ),
        "dill.load_session", "dill.load_module", "dill.load_module_asdict",
        "dill.session.load_session", "dill.session.load_module",
        "joblib.load", "joblib.numpy_pickle.load", "sklearn.externals.joblib.load",
        "pandas.read_pickle", "pandas.io.pickle.read_pickle", "pandas.compat.pickle_compat.load",
        "shelve.open", "shelve.Shelf", "shelve.DbfilenameShelf", "shelve.BsdDbShelf",
        "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load", "yaml.full_load_all",
        "jsonpickle.decode", "jsonpickle.loads", "statsmodels.iolib.smpickle.load_pickle",
        "statsmodels.api.load", "statsmodels.api.load_pickle",
    }
)  # fmt: skip
# What does so unless, or only if, an argument says so: its place and name, and the pattern of
# what it says where nothing runs. What is not said is "".
UNPACKING_BY_ARGUMENT: dict[str, tuple[int, str, str]] = {
    "torch.load": (99, "weights_only", "True"),
    "torch.serialization.load": (99, "weights_only", "True"),
    "numpy.load": (2, "allow_pickle", "(?:False)?"),
    "numpy.lib.npyio.load": (2, "allow_pickle", "(?:False)?"),
    "numpy.lib.format.read_array": (1, "allow_pickle", "(?:False)?"),
    "yaml.load": (1, "Loader", r"(?:\w+\.)*C?(?:Safe|Base)Loader"),
    "yaml.load_all": (1, "Loader", r"(?:\w+\.)*C?(?:Safe|Base)Loader"),
}

# Of these functions, the argument whose file goes; and those that put it in another's place.
DELETED_ARGUMENTS = ("path", "src", "name", "paths")
MOVING = frozenset({"os.rename", "os.renames", "os.replace", "shutil.move"})

# Methods that only paths have, so that it matters little what they are called on.
PATH_DELETIONS = frozenset({"unlink", "rmdir", "rmtree"})
# Methods that a path shares with texts and frames.
KNOWN_PATH_DELETIONS = frozenset({"rename", "replace"})

# Functions of the modules above that are handed on to be called elsewhere.
HANDED_ON = frozenset(
    {
        "run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput",
        "get", "post", "put", "patch", "delete", "head", "request", "stream", "urlopen",
        "urlretrieve", "create_connection", "connect", "download", "spawn", "main", "open",
        "string_at", "memmove", "CDLL", "loads", "get_password", "dotenv_values", "load_dotenv",
    }
)  # fmt: skip

# What gives an object that goes on reaching: a client, a session, a connection.
CLIENT = re.compile(
    r"Session|Client|Connection|[sS]ocket|Transport|Pool|FTP|SMTP|IMAP|POP3|Opener|Proxy|Telnet"
    r"|Server|Redis|FileSystem|Popen|Ticker|CDLL|^(?:session|client|resource|connect|spawn"
    r"|create_connection|build_opener|OpenAI|Anthropic|Process|opener)$"
)

# Where a text that is an address makes a reader go to the network.
READER = re.compile(
    r"^(?:read_\w+|scan_\w+|genfromtxt|loadtxt|urlopen|open_dataset|open_zarr|imread|open_url"
    r"|retrieve|from_url|open|filesystem|ParquetDataset|dataset|create_engine|create_async_engine"
    r"|connect|Dataset|iter_csv|load_workbook|from_uri|to_sql|write_database)$"
)
ADDRESS = re.compile(
    r"^\s*(?:(?:https?|ftps?|sftp|s3[an]?|gs|gcs|az|abfss?|adl|hdfs|ssh|wss?|hf|r2|md|motherduck"
    r"|postgres(?:ql)?|mysql|mariadb|mssql|oracle|snowflake|bigquery|redshift|clickhouse"
    r"|databricks|trino|mongodb|redis|amqp)(?:\+\w+)?://|md:|motherduck:)",
    re.IGNORECASE,
)

# Methods and functions whose first argument, or whose named one, is a file that they write.
WRITER = re.compile(
    r"^(?:to_(?:csv|parquet|excel|json|pickle|feather|hdf|html|latex|markdown|stata|xml|orc|file"
    r"|netcdf|zarr|string|gbq|clipboard)|write_(?:csv|parquet|json|ndjson|ipc|excel|html|image"
    r"|avro|delta|database)|sink_(?:csv|parquet|ipc|ndjson)|save(?:fig|z|txt"
    r"|z_compressed)?|tofile|extractall|imsave|imwrite)$"
)
# Methods of a path that write to it.
PATH_WRITES = frozenset(
    {"write_text", "write_bytes", "mkdir", "touch", "symlink_to", "hardlink_to", "chmod"}
)
# Functions by their full names, with the places and names of the arguments that are written to.
WRITING: dict[str, tuple[int, tuple[str, ...]]] = {
    "numpy.save": (0, ("file",)),
    "joblib.dump": (1, ("filename",)),
    "pyarrow.parquet.write_table": (1, ("where",)),
    "pyarrow.feather.write_feather": (1, ("dest",)),
    "pyarrow.csv.write_csv": (1, ("output_file",)),
    "pyarrow.dataset.write_dataset": (1, ("base_dir",)),
    "matplotlib.pyplot.imsave": (0, ("fname",)),
    "cv2.imwrite": (0, ("filename",)),
    "torch.save": (1, ("f",)),
    "pandas.ExcelWriter": (0, ("path",)),
    "polars.DataFrame.write_csv": (0, ("file",)),
    "os.mkdir": (0, ("path",)),
    "os.makedirs": (0, ("name",)),
    "os.chmod": (0, ("path",)),
    "os.chown": (0, ("path",)),
    "os.symlink": (1, ("dst",)),
    "os.link": (1, ("dst",)),
    "os.mkfifo": (0, ("path",)),
    "shutil.copy": (1, ("dst",)),
    "shutil.copy2": (1, ("dst",)),
    "shutil.copyfile": (1, ("dst",)),
    "shutil.copytree": (1, ("dst",)),
    "shutil.unpack_archive": (1, ("extract_dir",)),
    "shutil.make_archive": (0, ("base_name",)),
    "shutil.chown": (0, ("path",)),
    "logging.FileHandler": (0, ("filename",)),
    "logging.basicConfig": (99, ("filename",)),
    "duckdb.connect": (0, ("database",)),
}
FILE_ARGUMENTS = ("path", "path_or_buf", "path_or_buffer", "excel_writer", "fname", "filename",
                  "file", "fp", "buf", "fid", "outfile", "target", "where")  # fmt: skip

# Functions that open a file: where the mode stands, and what it is when it is not given.
OPENING: dict[str, tuple[int, str]] = {
    "open": (1, "r"),
    "codecs.open": (1, "r"),
    "gzip.open": (1, "r"),
    "bz2.open": (1, "r"),
    "lzma.open": (1, "r"),
    "io.FileIO": (1, "r"),
    "zipfile.ZipFile": (1, "r"),
    "tarfile.open": (1, "r"),
    "gzip.GzipFile": (1, "r"),
    "h5py.File": (1, "r"),
    "aiofiles.open": (1, "r"),
    "fsspec.open": (1, "r"),
    "os.fdopen": (1, "r"),
    "numpy.memmap": (2, "r+"),
    "shelve.open": (1, "c"),
    "dbm.open": (1, "r"),
}

# Functions that look at files, where the name of a place for keys tells what they are after.
LOOKING = re.compile(
    r"^(?:open|pathlib\.Path|os\.(?:open|listdir|scandir|walk|stat|path\.\w+)|glob\.i?glob"
    r"|shutil\.copy\w*|numpy\.(?:loadtxt|genfromtxt|fromfile)|io\.\w+|codecs\.open"
    r"|linecache\.\w+|fileinput\.\w+|configparser\.ConfigParser\(\)\.read)$|\.read_\w+$"
    r"|\.(?:joinpath|glob|rglob|iterdir|with_name)$"
)
KEY_PLACE = re.compile(
    r"(?:^|[/\\])(?:\.ssh|\.aws|\.gnupg|\.kube|\.azure|\.docker|\.config[/\\]gcloud|\.netrc|_netrc"
    r"|\.pgpass|\.my\.cnf|\.git-credentials|\.pypirc|\.npmrc|\.jupyter|\.env(?:\.\w+)?|id_rsa"
    r"|id_dsa|id_ecdsa|id_ed25519|credentials\.json|service[_-]account\w*\.json|kaggle\.json"
    r"|notebook_secret|notebook_cookie_secret|jupyter_cookie_secret|kernel-[\w*-]+\.json)(?=$|[/\\])"
    r"|[/\\]share[/\\]jupyter(?:[/\\]|$)|Library[/\\]Jupyter(?:[/\\]|$)"
    r"|^/proc/(?:self|\d+)/environ$|^/etc/(?:shadow|gshadow|sudoers)$"
)
KEY_NAME = re.compile(
    r"(?:^|_|API|SSH|ACCESS)KEY(?:S|_?ID)?(?:$|_)|TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|_PWD"
    r"|CREDENTIAL|AUTH(?!OR)|PRIVATE|(?:^|_)PAT(?:$|_)|DSN"
    r"|(?:DATABASE|DB|REDIS|MONGO\w*)_UR[LI]|CONN\w*_STR",
    re.IGNORECASE,
)

INSTALLING = re.compile(
    r"(?:^|[\s;&|/(`])(?:pip3?|pip3\.\d+|conda|mamba|micromamba|uv|pipx|poetry|pdm|apt|apt-get"
    r"|aptitude|brew|npm|yarn|yum|dnf|apk|gem|cargo|easy_install)\s[^;&|\n]*?"
    r"\b(?:install|uninstall|add|remove|purge|update|upgrade|download|create|sync)\b"
    r"|\beasy_install\b"
)

# What these names stand for where the cell does not say and no namespace is at hand.
CONVENTION: dict[str, str] = {
    **{
        name: name
        for name in (
            "os", "sys", "subprocess", "shutil", "requests", "httpx", "socket", "urllib",
            "pathlib", "io", "importlib", "ctypes", "builtins", "glob", "tempfile", "aiohttp",
            "boto3", "pip", "asyncio", "duckdb", "sqlalchemy", "gzip", "zipfile", "tarfile",
            "joblib", "pickle", "json", "psutil", "pty", "smtplib", "ftplib", "paramiko",
            "runpy", "keyring", "dotenv", "functools", "operator", "sqlite3", "torch", "h5py",
            "pandas", "numpy", "polars", "urllib3", "http", "websockets", "openai",
        )
    },
    "np": "numpy",
    "pd": "pandas",
    "pl": "polars",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "gpd": "geopandas",
    "pq": "pyarrow.parquet",
    "xr": "xarray",
    "sa": "sqlalchemy",
    "sm": "statsmodels.api",
    "yf": "yfinance",
    "Path": "pathlib.Path",
    "partial": "functools.partial",
    "load_dotenv": "dotenv.load_dotenv",
    "create_engine": "sqlalchemy.create_engine",
    "urlopen": "urllib.request.urlopen",
    "urlretrieve": "urllib.request.urlretrieve",
}  # fmt: skip

# Other names for the same thing.
_SAME = (
    # What a module has imported is there as its attribute.
    (re.compile(r"^[\w.]+\.(?=(?:os|sys|shutil|subprocess|socket|builtins|importlib)\.)"), ""),
    (re.compile(r"^(?:posix|nt|_posixsubprocess)(?=\.)"), "os"),
    (re.compile(r"^(?:posixpath|ntpath)(?=\.|$)"), "os.path"),
    (re.compile(r"^(?:builtins|__builtins__)\."), ""),
    (re.compile(r"^_?io\.open$"), "open"),
    (re.compile(r"^pathlib\.(?:_local\.)?(?:PosixPath|WindowsPath|PurePath|PurePosixPath|Path)\b"),
     "pathlib.Path"),
    (re.compile(r"^pathlib\._local(?=\.)"), "pathlib"),
    (re.compile(r"^IPython(?:\.\w+)*\.get_ipython\b"), "get_ipython"),
    (re.compile(r"^_(?=socket\.|ssl\.|ctypes\.|signal\.)"), ""),
    (re.compile(r"^importlib\.__import__$"), "__import__"),
    (re.compile(r"(?:\.__call__)+$"), ""),
)  # fmt: skip


def canonical(name: str) -> str:
    """The one name by which the tables know what ``name`` names."""
    for pattern, instead in _SAME:
        name = pattern.sub(instead, name)
    return name


def kind_of(name: str) -> ReachKind | None:
    """Where a call of ``name``, canonical and complete, reaches whatever its arguments are."""
    if name in CALLS:
        return CALLS[name]
    parts = name.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    if any(prefix in HARMLESS for prefix in prefixes):
        return None
    # The module itself is no call.
    return next((MODULES[each] for each in prefixes[1:] if each in MODULES), None)


def names_in(module: str) -> list[str]:
    """What ``from module import *`` brings that is known here."""
    known = [
        *CALLS,
        *UNPACKING,
        *UNPACKING_BY_ARGUMENT,
        *WRITING,
        *OPENING,
        *(f"{module}.{name}" for name in HANDED_ON),
    ]
    start = f"{module}."
    found = (name.removeprefix(start) for name in known if name.startswith(start))
    return [name for name in found if "." not in name and "(" not in name]
