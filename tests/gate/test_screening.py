"""What a cell would do outside is found; an ordinary analysis reaches nothing."""
# ruff: noqa: E501  (cells stand on one line)

import functools
import os
import shutil
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsimony_kernel.gate.cell_lines import parsed
from parsimony_kernel.gate.reach import Reach, ReachKind
from parsimony_kernel.gate.screening import screened

WORKSPACE = Path("/home/ada/work")

HARMLESS = {
    "read a csv": "import pandas as pd\ndf = pd.read_csv('data/orders.csv')\ndf.head()",
    "read without import": "orders = pd.read_parquet('orders.parquet')\norders.describe()",
    "absolute csv": "df = pd.read_csv('/data/shared/orders.csv')",
    "parent csv": "df = pd.read_csv('../raw/orders.csv', parse_dates=['day'])",
    "excel sheets": "sheets = pd.read_excel('book.xlsx', sheet_name=None)\nlist(sheets)",
    "group": "df.groupby('region')['amount'].agg(['sum', 'mean']).reset_index()",
    "merge": "full = orders.merge(customers, on='customer_id', how='left', validate='m:1')",
    "rename and replace": "df = df.rename(columns={'a': 'b'}).replace({'x': 1})",
    "text replace": "df['name'] = df['name'].str.replace('old', 'new').str.strip()",
    "plain text replace": "slug = 'Über uns'.lower().replace(' ', '-')\npath = slug.rename",
    "drop": "df = df.drop(columns=['a']).dropna()\ndel df['b']",
    "list remove": "items = [1, 2, 3]\nitems.remove(2)\nitems.pop()\nitems.clear()",
    "set discard": "seen = {1}\nseen.remove(1)\nseen.discard(2)",
    "query and eval": "df.query('a > 1').eval('c = a + b')",
    "frame eval": "pd.eval('df.a + df.b')",
    "regular expression": "import re\npattern = re.compile(r'\\d+')\npattern.findall(text)",
    "write inside": "df.to_csv('out/clean.csv', index=False)",
    "write inside, absolute": "df.to_parquet('/home/ada/work/out/clean.parquet')",
    "write inside through the parent": "df.to_csv('sub/../clean.csv')",
    "open to write": "with open('notes.txt', 'w') as f:\n    f.write('done')",
    "open to read": "with open('/etc/hostname') as f:\n    print(f.read())",
    "path text": "from pathlib import Path\nPath('report.md').write_text('# Report')",
    "make a folder": "import os\nos.makedirs('out/charts', exist_ok=True)",
    "make a folder by path": "from pathlib import Path\n(Path('out') / 'a').mkdir(parents=True)",
    "list files": "import glob, os\nfor p in glob.glob('data/*.csv'):\n    print(os.path.getsize(p))",
    "walk": "from pathlib import Path\nsorted(Path.cwd().rglob('*.csv'))",
    "join a path": "import os\ndf = pd.read_csv(os.path.join(os.getcwd(), 'data', 'x.csv'))",
    "json": "import json\nwith open('cfg.json') as f:\n    cfg = json.load(f)\ncfg.get('key')",
    "json dump": "import json\njson.dump(summary, open('summary.json', 'w'), indent=2)",
    "pickle inside": "import pickle\npickle.dump(model, open('model.pkl', 'wb'))",
    "joblib inside": "import joblib\njoblib.dump(model, 'model.joblib')",
    "numpy": "import numpy as np\nrng = np.random.default_rng(0)\nx = rng.normal(size=(100, 3))\nx.mean(0)",
    "numpy save inside": "np.save('x.npy', x)\nnp.savetxt('x.txt', x)",
    "matrix": "cov = np.cov(x.T)\nvalues, vectors = np.linalg.eigh(cov)",
    "matplotlib": "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot(x, y)\nplt.show()",
    "savefig inside": "fig.savefig('charts/trend.png', dpi=200)\nplt.close(fig)",
    "altair": "import altair as alt\nalt.Chart(df).mark_bar().encode(x='region:N', y='sum(amount):Q')",
    "altair save inside": "chart.save('charts/sales.html')",
    "seaborn": "import seaborn as sns\nsns.histplot(data=df, x='amount', hue='region')",
    "plotly": "import plotly.express as px\nfig = px.scatter(df, x='a', y='b')\nfig.show()",
    "plotly write": "fig.write_html('chart.html')",
    "duckdb": "import duckdb\nduckdb.sql('select region, sum(amount) from orders group by 1').df()",
    "duckdb file": "con = duckdb.connect('shop.duckdb')\ncon.execute('create table t as select 1')",
    "duckdb read": "duckdb.sql(\"select * from read_csv('data/*.csv')\")",
    "duckdb copy inside": "duckdb.sql(\"copy t to 'out/t.parquet' (format parquet)\")",
    "duckdb drop": "con.execute('drop table if exists staging')",
    "sqlite": "import sqlite3\ncon = sqlite3.connect('shop.db')\npd.read_sql('select * from t', con)",
    "sqlalchemy local": "from sqlalchemy import create_engine\neng = create_engine('sqlite:///shop.db')",
    "polars": "import polars as pl\npl.scan_csv('a.csv').filter(pl.col('x') > 1).collect()",
    "polars write": "frame.write_parquet('out/frame.parquet')",
    "sklearn": (
        "from sklearn.linear_model import LinearRegression\n"
        "model = LinearRegression().fit(X, y)\nmodel.score(X, y)"
    ),
    "scipy signal": "from scipy import signal\nb, a = signal.butter(4, 0.2)\nz = signal.filtfilt(b, a, x)",
    "statsmodels": "import statsmodels.formula.api as smf\nsmf.ols('y ~ x', df).fit().summary()",
    "url as text": "print('see https://example.org/data.csv')\ndf['url'].str.startswith('https://')",
    "url parsed": "from urllib.parse import urlparse\nurlparse('https://example.org/a').netloc",
    "url in a frame": "pd.DataFrame({'url': ['https://example.org/a.csv']})",
    "environment set": "import os\nos.environ['OMP_NUM_THREADS'] = '2'",
    "environment plain": "import os\nos.environ.get('LANG', 'C')\nos.environ['TZ']",
    "environment asked": "import os\n'HOME' in os.environ",
    "os paths": "import os\nos.path.exists('a.csv') and os.path.basename('/x/y.csv')",
    "time magic": "%time df.groupby('a').sum()",
    "timeit cell": "%%timeit -n 10 -r 3\ndf['a'].sum()",
    "capture cell": "%%capture out\nmodel.fit(X, y)",
    "matplotlib magic": "%matplotlib inline\n%load_ext autoreload\n%autoreload 2\nimport numpy as np",
    "help": "df.groupby?\n?pd.merge\npd.concat??",
    "list packages": "%pip list",
    "writefile inside": "%%writefile helper.py\nimport os\nos.remove('x')",
    "html cell": "%%html\n<a href='https://example.org'>here</a>",
    "modulo": "x = (a\n  % b)\nprint('%s and %d' % (x, 3))",
    "format": "print(f'{total:,.2f} of {n} ({share:.1%})')",
    "async": "results = await gather_all(df)\nasync for each in stream():\n    print(each)",
    "own function": "def remove(p):\n    return p\n\nremove('x')\nopen = print\nopen('/etc/x', 'w')",
    "own class": "class Session:\n    def get(self, key):\n        return key\n\nSession().get('https://a')",
    "literal eval": "import ast\nast.literal_eval('[1, 2]')\neval('1 + 1')",
    "getattr": "getattr(df, 'sum')()\ngetattr(df, name)(axis=1)",
    "import by name": "import importlib\nnp = importlib.import_module('numpy')\n__import__('math').pi",
    "partial": "from functools import partial\nread = partial(pd.read_csv, sep=';')\nread('a.csv')",
    "widgets": "import ipywidgets as w\nw.interact(lambda k: df.head(k), k=(1, 10))",
    "display": "from IPython.display import display, HTML\ndisplay(HTML('<b>hi</b>'))",
    "dates": "from datetime import datetime\ndf['day'] = pd.to_datetime(df['day'])\ndatetime.now()",
    "null device": "print('x', file=open('/dev/null', 'w'))",
    "buffer": "import io\nbuf = io.StringIO()\ndf.to_csv(buf)\nbuf.getvalue()",
    "docstring with a bang": "text = '''\n!rm -rf /\n%pip install x\n'''\nprint(text)",
    "env as text": "df[df['file'] == '.env']\nprint('never commit .ssh keys')",
    "key as text": "df.set_index('API_KEY')['token'].groupby(level=0).first()",
    "geopandas": "import geopandas as gpd\ngdf = gpd.read_file('shapes/roads.shp')\ngdf.to_file('out.gpkg')",
    "xarray": "import xarray as xr\nds = xr.open_dataset('t2m.nc')\nds['t2m'].mean('time').plot()",
    "threads": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as e:\n    list(e.map(len, rows))",
    "requests in a frame": "requests = df[df['kind'] == 'request']\nrequests.groupby('user').size()",
    "zip inside": "import zipfile\nwith zipfile.ZipFile('in.zip') as z:\n    z.extractall('unpacked')",
    "copy inside": "import shutil\nshutil.copy('a.csv', 'backup/a.csv')",
    "a variable called like a module": "signal.mean()\ncode.strip()\nsh.cell(1, 1).value\nredis.get('a')",
    "two classes": "p = Product('a')\np.rename('b')\np.remove(1)\np.kill()\np.system",
    "a method called open": "shop.open('w')\nimage.open('https')\nImage.save('a.png')",
    "csv writer": "import csv\nwith open('o.csv', 'w', newline='') as f:\n    csv.writer(f).writerows(rows)",
    "cell 1": "df = pd.read_csv('~/data/x.csv')",
    "cell 2": "import os\nos.getcwd(); os.listdir('.'); os.path.join('a','b')",
    "cell 3": "import sys\nsys.version, sys.path",
    "cell 4": "import platform\nplatform.platform()",
    "cell 5": "import logging\nlogging.basicConfig(level='INFO')",
    "cell 6": "with open('a.txt') as f:\n    lines = f.readlines()",
    "cell 7": "ax.set_title('a'); fig.tight_layout(); fig.savefig('a.pdf')",
    "cell 8": "from collections import Counter, defaultdict\nCounter(words).most_common(3)",
    "cell 9": "df.plot(x='a', y='b', kind='line')",
    "cell 10": "import altair as alt\nalt.data_transformers.disable_max_rows()",
    "cell 11": "s.map(str.lower).str.contains('http://')",
    "cell 12": "import time\nt = time.perf_counter()",
    "cell 13": "X_train, X_test = train_test_split(X, test_size=.2)",
    "cell 14": "df.apply(lambda r: r['a'] + r['b'], axis=1)",
    "cell 15": "conn.execute('select * from t where a = ?', (1,)).fetchall()",
    "cell 16": "result = pd.read_sql_query('select 1', conn)",
    "cell 17": "tokens = text.split(); key = tokens[0]; os = 3",
    "cell 18": "df.loc[df['password'].isna(), 'token'] = None",
    "cell 19": "import hashlib\nhashlib.sha256(b'x').hexdigest()",
    "cell 20": "from IPython.display import Image\nImage('a.png')",
    "cell 21": "import warnings\nwarnings.filterwarnings('ignore')",
    "cell 22": "alt.Chart('https://example.org/a.csv').mark_bar()",
    "cell 23": "G = nx.Graph(); G.remove_node(1); G.connect = 1",
    "cell 24": "model.save('model.keras'); model.eval(); model.compile('adam')",
    "cell 25": "import torch\ntorch.save(m.state_dict(), 'm.pt'); m.load_state_dict(torch.load('m.pt'))",
    "cell 26": "from pathlib import Path\nDATA = Path('data'); df.to_csv(DATA / 'x.csv')",
    "cell 27": "from pathlib import Path\nout = Path('out'); out.mkdir(exist_ok=True); (out/'a.txt').write_text('x')",
    "cell 28": "import requests",
    "cell 29": "import os, subprocess, shutil, socket",
    "cell 30": "from requests.exceptions import HTTPError\ntry:\n    f()\nexcept HTTPError as e:\n    print(e)",
    "cell 31": "import socket\nsocket.gethostname()",
    "cell 32": "import signal\nimport ctypes\nsignal.SIGINT",
    "cell 33": "import multiprocessing as mp\nwith mp.Pool() as p:\n    p.map(f, xs)",
    "cell 34": "json.loads(text)['url'].replace('http', 'https')",
    "cell 35": "s = 'os.remove(\"x\")'\nprint(s)",
    "cell 36": "# !pip install x\n# os.remove('a')\nx = 1",
    "cell 37": "%%sql\nselect * from t",
    "cell 38": "%%markdown\n# !rm",
    "cell 39": "%precision 3\n%who\n%history -n 3",
    "cell 40": "pl.read_csv('a.csv').write_csv('b.csv')",
    "cell 41": "df.to_sql('t', con); df.to_clipboard(); df.to_dict()",
    "cell 42": "sns.set_theme(); sns.scatterplot(data=tips)",
    "cell 43": "open('data.json').read()",
    "cell 44": "import pickle\npickle.load(open('m.pkl','rb'))",
    "cell 45": "@functools.cache\ndef f(x): return x",
    "cell 46": "def main(argv=None):\n    return run(argv)\nmain()",
    "cell 47": "import os\nos.environ.setdefault('MPLBACKEND', 'agg')",
    "cell 48": "os.environ['OPENAI_API_KEY'] = 'x'",
    "cell 49": "df['AUTHOR'] = os.environ.get('AUTHOR')",
    "cell 50": "import os\nos.environ.get('KEYBOARD')",
    "cell 51": "x = re.sub(r'\\.env', '', s)",
    "cell 52": "session = Session()\nsession.query(User).all()",
    "cell 53": "client.get('x')",
    "cell 54": "import shutil\nshutil.disk_usage('/')",
    "cell 55": "shutil.which('dot')",
    "cell 56": "import statsmodels.api as sm\nsm.OLS(y, X).fit()",
    "cell 57": "from scipy import stats\nstats.ttest_ind(a, b)",
    "cell 58": "import duckdb\ncon = duckdb.connect()\ncon.execute(\"copy (select 1) to 'x.csv'\")\ncon.sql('from t')",
    "cell 59": "import asyncio\nawait asyncio.sleep(0)",
    "further cell 1": "import seaborn as sns\ndf = sns.load_dataset",
    "further cell 2": "x = df.to_csv(); y = df.to_json(); df.to_html()",
    "further cell 3": "with pd.ExcelWriter('out.xlsx') as w:\n    df.to_excel(w, sheet_name='/a')",
    "further cell 4": "df.to_csv('out.csv', sep='/')",
    "further cell 5": "pd.read_csv('data.csv', encoding='https')",
    "further cell 6": "df.columns = [c.replace('/', '_') for c in df.columns]",
    "further cell 7": "chart.save(f'charts/{name}.png', scale_factor=2)",
    "further cell 8": "Path('a') / 'b'\n(Path('a') / 'b').exists()",
    "further cell 9": "open(path).read()",
    "further cell 10": "open(path, 'w').write('x')",
    "further cell 11": "df.to_parquet(path)",
    "further cell 12": "con = sqlite3.connect('/data/x.db')",
    "further cell 13": "pd.read_csv('/data/a/b.csv'); open('/data/x').read()",
    "further cell 14": "import os\nfor root, dirs, files in os.walk('/data'):\n    print(root)",
    "further cell 15": "os.path.exists('/etc/x'); os.stat('/etc/hosts')",
    "further cell 16": "import os\nn = os.cpu_count(); os.sep; os.linesep",
    "further cell 17": "from subprocess import CalledProcessError, PIPE",
    "further cell 18": "x.write('https://a'); f.write('/etc/passwd')",
    "further cell 19": "logging.getLogger('requests').setLevel('INFO')",
    "further cell 20": "df.pipe(lambda d: d.assign(x=1)).eval('y = x')",
    "further cell 21": "ols = smf.ols('y ~ x', data=df).fit()\nols.save('m.pkl')",
    "further cell 22": "img = plt.imread('a.png'); plt.imsave('b.png', img)",
    "further cell 23": "text = 'see\\n!ls\\n'\n%time print(text)",
    "further cell 24": "from sklearn.datasets import load_iris, make_blobs\nload_iris()",
    "further cell 25": "import sqlalchemy as sa\nsa.text('select 1'); sa.create_engine('sqlite://')",
    "further cell 26": "tokenizer.encode('a'); os.environ['TOKENIZERS_PARALLELISM'] = 'false'",
    "further cell 27": "p = 3\np.kill = 1",
    "further cell 28": "import json\nprint(json.dumps({'url': 'https://a'}))",
    "further cell 29": "df.style.format('{:.2f}').to_html('t.html')",
    "duckdb file to read": "con = duckdb.connect('/data/shop.duckdb', read_only=True)",
    "further cell 30": "import shutil\nshutil.make_archive('out', 'zip', 'charts')",
}  # fmt: skip

SHELL, NETWORK, DELETION = ReachKind.shell, ReachKind.network, ReachKind.deletion
OUTSIDE, INSTALL, SECRET = ReachKind.outside_write, ReachKind.installation, ReachKind.secret
PROCESS, DYNAMIC = ReachKind.process, ReachKind.dynamic_code

REACHING: list[tuple[ReachKind, str]] = [
    (SHELL, "!ls -l"),
    (SHELL, "files = !ls *.csv"),
    (SHELL, "!!date"),
    (SHELL, "for f in files:\n    !gzip {f}"),
    (SHELL, "%%bash\nset -e\nls"),
    (SHELL, "%%script perl\nprint 1"),
    (SHELL, "\n%%sh\necho hi"),
    (SHELL, "%sx date"),
    (SHELL, "import os\nos.system('make all')"),
    (SHELL, "import os as o\no.system('make all')"),
    (SHELL, "from os import popen as p\np('date').read()"),
    (SHELL, "import subprocess\nsubprocess.run(['ls', '-l'], check=True)"),
    (SHELL, "from subprocess import check_output\ncheck_output('date', shell=True)"),
    (SHELL, "import subprocess as sp\nwith sp.Popen(['cat'], stdin=sp.PIPE) as p:\n    pass"),
    (SHELL, "import pty\npty.spawn('/bin/sh')"),
    (SHELL, "get_ipython().system('ls')"),
    (SHELL, "ip = get_ipython()\nx = ip.getoutput('ls')"),
    (SHELL, "get_ipython().run_cell_magic('bash', '', 'ls\\n')"),
    (SHELL, "import asyncio\nawait asyncio.create_subprocess_shell('ls')"),
    (SHELL, "__import__('os').system('id')"),
    (SHELL, "import sys\nsys.modules['os'].system('id')"),
    (SHELL, "import os\ngetattr(os, 'sys' + 'tem')('id')"),
    (SHELL, "import os\nvars(os)['system']('id')"),
    (SHELL, "from os import *\nsystem('id')"),
    (SHELL, "def deploy():\n    sp.run(['make'])\nimport subprocess as sp\ndeploy()"),
    (SHELL, "this is no python\n!ls"),
    (SHELL, "x = 'it''s\n!echo hi\n"),
    (INSTALL, "!pip install lifelines"),
    (INSTALL, "%pip install -q lifelines"),
    (INSTALL, "%conda install -y geopandas"),
    (INSTALL, "pip install lifelines"),
    (INSTALL, "!apt-get update && apt-get install -y graphviz"),
    (INSTALL, "import sys, subprocess\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])"),
    (INSTALL, "import os\nos.system('pip3 uninstall -y numpy')"),
    (INSTALL, "from pip._internal import main\nmain(['install', 'x'])"),
    (INSTALL, "import pip\npip.main(['install', 'x'])"),
    (INSTALL, "import ensurepip\nensurepip.bootstrap()"),
    (INSTALL, "get_ipython().run_line_magic('pip', 'install x')"),
    (NETWORK, "import requests\nr = requests.get('https://api.example.org/v1')"),
    (NETWORK, "from requests import post as send\nsend(url, json=data)"),
    (NETWORK, "import requests\ns = requests.Session()\ns.get(url).json()"),
    (NETWORK, "import httpx\nasync with httpx.AsyncClient() as c:\n    await c.get(url)"),
    (NETWORK, "import aiohttp\nasync with aiohttp.ClientSession() as s:\n    r = await s.post(url)"),
    (NETWORK, "import socket\ns = socket.socket()\ns.connect(('a', 1))"),
    (NETWORK, "import http.client\nhttp.client.HTTPSConnection('a').request('GET', '/')"),
    (NETWORK, "import urllib.request\nurllib.request.urlopen(url)"),
    (NETWORK, "from urllib import request\nrequest.urlretrieve(url, 'x.csv')"),
    (NETWORK, "from ftplib import FTP\nFTP('ftp.example.org').login()"),
    (NETWORK, "import smtplib\nwith smtplib.SMTP('mail') as m:\n    m.sendmail(a, b, c)"),
    (NETWORK, "import paramiko\nc = paramiko.SSHClient()\nc.connect('host')"),
    (NETWORK, "import boto3\nboto3.client('s3').upload_file('a', 'b', 'c')"),
    (NETWORK, "import websockets\nasync with websockets.connect(u) as ws:\n    await ws.send('x')"),
    (NETWORK, "df = pd.read_csv('https://example.org/data.csv')"),
    (NETWORK, "base = 'https://example.org'\ndf = pd.read_json(f'{base}/{day}.json')"),
    (NETWORK, "import pandas as p\np.read_parquet(path='s3://bucket/key.parquet')"),
    (NETWORK, "df.to_parquet('s3://bucket/out.parquet')"),
    (NETWORK, "import polars as pl\npl.scan_parquet('gs://bucket/*.parquet')"),
    (NETWORK, "import duckdb\nduckdb.sql(\"select * from 'https://example.org/a.parquet'\")"),
    (NETWORK, "con = duckdb.connect('md:mine')"),
    (NETWORK, "from sqlalchemy import create_engine\ncreate_engine('postgresql+psycopg://u@db/x')"),
    (NETWORK, "import sqlalchemy as sa\ne = sa.create_engine('mysql://u:p@db/x')"),
    (NETWORK, "import seaborn as sns\ntips = sns.load_dataset('tips')"),
    (NETWORK, "from sklearn.datasets import fetch_openml\nfetch_openml('titanic')"),
    (NETWORK, "import requests\nlist(map(requests.get, urls))"),
    (NETWORK, "import yfinance as yf\nyf.download('AAPL')"),
    (DELETION, "import os\nos.remove('a.csv')"),
    (DELETION, "import os as o\no.unlink('a.csv')"),
    (DELETION, "from os import remove as r\nr('a.csv')"),
    (DELETION, "import os\nf = os.remove\nf('a.csv')"),
    (DELETION, "import os\nf = g = os.rmdir\ng('a')"),
    (DELETION, "import os\nfor p in ps:\n    getattr(os, 'remove')(p)"),
    (DELETION, "import os\nlist(map(os.remove, paths))"),
    (DELETION, "import os\ntools = {'rm': os.remove}\ntools['rm']('x')"),
    (DELETION, "import os\n(os.remove if hard else print)('x')"),
    (DELETION, "import os\nwipe = lambda p: os.remove(p)"),
    (DELETION, "import os\nf = print\nif hard:\n    f = os.remove\nf('x')"),
    (DELETION, "import shutil\nshutil.rmtree('out', ignore_errors=True)"),
    (DELETION, "from shutil import move\nmove('a', 'b')"),
    (DELETION, "import os\nos.rename('a.csv', 'b.csv')"),
    (DELETION, "from pathlib import Path\nPath('a.csv').unlink(missing_ok=True)"),
    (DELETION, "for p in Path('out').glob('*.png'):\n    p.unlink()"),
    (DELETION, "from pathlib import Path\np = Path('a')\np.rename('b')"),
    (DELETION, "from functools import partial\nimport shutil\nclear = partial(shutil.rmtree, ignore_errors=True)\nclear('x')"),
    (DELETION, "exec('import os\\nos.remove(\"x\")')"),
    (DELETION, "code = 'import shutil as s; s.rmtree(\"x\")'\neval(compile(code, 'x', 'exec'))"),
    (DELETION, "%time os.remove('a.csv')"),
    (DELETION, "%%timeit\nimport os\nos.remove('a.csv')"),
    (DELETION, "%rm -rf out"),
    (DELETION, ">>> import os\n>>> os.remove('a')"),
    (DELETION, "  import os\n  os.remove('a')"),
    (OUTSIDE, "open('/tmp/x.txt', 'w').write('x')"),
    (OUTSIDE, "with open('../x.txt', mode='a') as f:\n    f.write('x')"),
    (OUTSIDE, "import io\nio.open('/var/log/x', 'wb')"),
    (OUTSIDE, "from pathlib import Path\nPath('/etc/cron.d/x').write_text('x')"),
    (OUTSIDE, "from pathlib import Path\n(Path('..') / 'x.csv').write_bytes(b'x')"),
    (OUTSIDE, "from pathlib import Path\n(Path.home() / 'x').touch()"),
    (OUTSIDE, "from pathlib import Path\nPath('~/x').expanduser().open('w')"),
    (OUTSIDE, "from pathlib import Path\nPath.cwd().parent.joinpath('x').mkdir()"),
    (OUTSIDE, "df.to_csv('/tmp/clean.csv')"),
    (OUTSIDE, "df.to_excel(excel_writer='../clean.xlsx')"),
    (OUTSIDE, "out = '/srv/share'\ndf.to_parquet(f'{out}/{day}.parquet')"),
    (OUTSIDE, "import os\ndf.to_csv(os.path.join('..', 'x.csv'))"),
    (OUTSIDE, "import os\ndf.to_csv(os.path.expanduser('~/x.csv'))"),
    (OUTSIDE, "fig.savefig('/tmp/%s.png' % name)"),
    (OUTSIDE, "np.save('/tmp/x.npy', x)"),
    (OUTSIDE, "import joblib\njoblib.dump(model, '/models/m.joblib')"),
    (OUTSIDE, "import shutil\nshutil.copy('a.csv', '/mnt/share/a.csv')"),
    (OUTSIDE, "import os\nos.makedirs('../other/out', exist_ok=True)"),
    (OUTSIDE, "import gzip\ngzip.open('/tmp/x.gz', 'wb')"),
    (OUTSIDE, "import zipfile\nzipfile.ZipFile('in.zip').extractall('/opt')"),
    (OUTSIDE, "duckdb.sql(\"COPY t TO '/tmp/t.parquet' (FORMAT parquet)\")"),
    (OUTSIDE, "%%writefile ../setup.py\nx = 1"),
    (OUTSIDE, "import os\nos.chdir('/')\nopen('x', 'w')"),
    (OUTSIDE, "%cd ../.."),
    (OUTSIDE, "chart.save('/home/ada/workshop/c.html')"),
    (SECRET, "import os\nos.environ['OPENAI_API_KEY']"),
    (SECRET, "import os\nkey = os.environ.get('AWS_SECRET_ACCESS_KEY')"),
    (SECRET, "from os import getenv\ngetenv('DB_PASSWORD')"),
    (SECRET, "from os import environ as e\ne['GITHUB_TOKEN']"),
    (SECRET, "import os\nprint(os.environ)"),
    (SECRET, "import os\n{k: v for k, v in os.environ.items()}"),
    (SECRET, "%env ANTHROPIC_API_KEY"),
    (SECRET, "%env"),
    (SECRET, "import os\nopen(os.path.expanduser('~/.ssh/id_rsa')).read()"),
    (SECRET, "from pathlib import Path\n(Path.home() / '.aws' / 'credentials').read_text()"),
    (SECRET, "open('.env').read()"),
    (SECRET, "from dotenv import load_dotenv\nload_dotenv()"),
    (SECRET, "pd.read_csv('/home/ada/.netrc', sep=' ')"),
    (SECRET, "import glob\nglob.glob('/home/ada/.local/share/jupyter/runtime/kernel-*.json')"),
    (SECRET, "from jupyter_core.paths import jupyter_data_dir\njupyter_data_dir()"),
    (SECRET, "import keyring\nkeyring.get_password('a', 'b')"),
    (SECRET, "open('/proc/self/environ').read()"),
    (PROCESS, "import os\nos.kill(os.getpid(), 9)"),
    (PROCESS, "import os\nos._exit(0)"),
    (PROCESS, "import os\nif os.fork() == 0:\n    pass"),
    (PROCESS, "import os\nos.execv('/bin/sh', ['sh'])"),
    (PROCESS, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)"),
    (PROCESS, "import ctypes\nctypes.string_at(0)"),
    (PROCESS, "from ctypes import CDLL\nlibc = CDLL('libc.so.6')\nlibc.abort()"),
    (PROCESS, "import psutil\npsutil.Process(1).kill()"),
    (DYNAMIC, "exec(source)"),
    (DYNAMIC, "exec(open('setup.py').read())"),
    (DYNAMIC, "eval(input())"),
    (DYNAMIC, "import base64\nexec(base64.b64decode('cHJpbnQoMSk='))"),
    (DYNAMIC, "__import__(name)"),
    (DYNAMIC, "import importlib\nimportlib.import_module(name).run()"),
    (DYNAMIC, "import os\ngetattr(os, name)('x')"),
    (DYNAMIC, "import builtins\nbuiltins.exec(code)"),
    (DYNAMIC, "run = exec\nrun(code)"),
    (DYNAMIC, "list(map(eval, expressions))"),
    (DYNAMIC, "get_ipython().run_cell(code)"),
    (DYNAMIC, "%run other.py"),
    (DYNAMIC, "import runpy\nrunpy.run_path('x.py')"),
    (DYNAMIC, "compile(text, 'x', 'exec')"),
    (DELETION, "import os; o = os; del os; o.remove('x')"),
    (DELETION, "import os\nos.remove.__call__('x')"),
    (DELETION, "import os\n(r := os.remove)('x')"),
    (DELETION, "import os\nprint(f\"{os.remove('x')}\")"),
    (DELETION, "import os\nwith os.scandir('.') as it:\n    for e in it:\n        os.remove(e.path)"),
    (DELETION, "try:\n    from os import remove\nexcept ImportError:\n    remove = None\nremove('x')"),
    (DELETION, "import sys\ngetattr(sys.modules['os'],'remove')('x')"),
    (DELETION, "import pathlib\npathlib.Path.unlink(pathlib.Path('x'))"),
    (DELETION, "pd.io.common.os.remove('x')"),
    (DELETION, "import os\ndef outer():\n    def inner():\n        return os.remove\n    return inner()\nouter()('x')"),
    (DELETION, "import os\nmatch x:\n    case 1:\n        os.remove('x')"),
    (DELETION, "import os\nwhile True:\n    os.remove('x'); break"),
    (DELETION, "import os\nx = {os.remove(p) for p in ps}"),
    (DELETION, "import os\nawait asyncio.to_thread(os.remove, 'x')"),
    (DELETION, "import os\nfrom threading import Timer\nTimer(1, os.remove, ['x']).start()"),
    (DELETION, "import os\nclass A:\n    rm = staticmethod(os.remove)"),
    (DELETION, "import os\nos.replace(src='a', dst='b')"),
    (SHELL, "import os\nos.system(f'ls {d}')"),
    (SHELL, "import subprocess\nsubprocess.Popen(args=['ls'])"),
    (SHELL, "import subprocess\nr = subprocess.run\ndef go(): return r(['ls'])"),
    (SHELL, "%%bash --out o\nls"),
    (NETWORK, "import requests\nrequests.request('GET', u)"),
    (NETWORK, "import requests as r\nr.get(u, timeout=3).raise_for_status()"),
    (NETWORK, "from requests import Session\nwith Session() as s: s.get(u)"),
    (NETWORK, "import socket\nsocket.create_connection(('a', 80))"),
    (NETWORK, "import polars as pl\npl.read_database_uri('select 1', uri='postgresql://a')"),
    (NETWORK, "import requests\nclass C:\n    def __init__(self):\n        self.s = requests.Session()\n    def go(self):\n        return self.s.get('x')"),
    (NETWORK, "import fsspec\nwith fsspec.open('https://a/b') as f: f.read()"),
    (NETWORK, "url = 'https://a/' \\\n  'b.csv'\npd.read_csv(url)"),
    (NETWORK, "urls = ['https://a/b.csv', 'https://a/c.csv']\ndfs = [pd.read_csv(u) for u in urls]"),
    (NETWORK, "urls = {'a': 'https://a/b.csv'}\npd.read_csv(urls['a'])"),
    (OUTSIDE, "out = Path('/data/out')\nfor n in ns:\n    df.to_csv(out / f'{n}.csv')"),
    (OUTSIDE, "OUT = '/data'\ndef save(df, name):\n    df.to_csv(f'{OUT}/{name}.csv')\nsave(df, 'a')"),
    (OUTSIDE, "paths = ['/data/a.csv']\nfor p in paths:\n    df.to_csv(p)"),
    (OUTSIDE, "from pathlib import Path as P\nP('/x/y').open(mode='w')"),
    (OUTSIDE, "(Path(__file__).parent / '..' / 'x').write_text('a')"),
    (OUTSIDE, "np.savez('/x/y.npz', a=1)"),
    (OUTSIDE, "import os\nos.mkdir('/x')"),
    (OUTSIDE, "with open(Path('/x') / 'y', 'w') as f: pass"),
    (SECRET, "from os import environ\nfor k in environ: print(k, environ[k])"),
    (SECRET, "import os\ntoken = os.getenv('TOKEN', '')"),
    (SECRET, "import os\nos.environ.get(key='SECRET_KEY')"),
    (SECRET, "open(f\"{os.environ['HOME']}/.aws/credentials\")"),
    (DYNAMIC, "import code\ncode.interact()"),
    (DYNAMIC, "exec(compile(open('x').read(), 'x', 'exec'))"),
    (DYNAMIC, "(lambda e: e(x))(eval)"),
    (PROCESS, "import os\nos.killpg(0, 9)"),
    (PROCESS, "from signal import alarm\nalarm(1)"),
    (INSTALL, "import sys\n!{sys.executable} -m pip install -U pandas"),
    (INSTALL, "!poetry add x"),
    (SHELL, "import os\nos.popen('ls').read().splitlines()"),
    (SHELL, "from subprocess import *\nrun('ls')"),
    (SHELL, "import subprocess\nclass A:\n    go = subprocess.run\nA.go('ls')"),
    (SHELL, "import subprocess\ncmds=[subprocess.run]\ncmds[0]('x')"),
    (SHELL, "if True:\n  %sx ls"),
    (SHELL, "out = %system ls"),
    (SHELL, "with open('a') as f:\n    x = f.read()\n    !wc -l a"),
    (SHELL, "try:\n    import os\n    os.system('x')\nexcept Exception: pass"),
    (SHELL, "import os\n(lambda s: s('ls'))(os.system)"),
    (SHELL, "import os\n[getattr(os, n) for n in ['system']][0]('ls')"),
    (SHELL, "import os as x\ny = x\ny.system('ls')"),
    (SHELL, "get_ipython().magic('sx ls')"),
    (SHELL, "get_ipython().run_line_magic('sx', 'ls')"),
    (SHELL, "from IPython import get_ipython\nget_ipython().system('x')"),
    (SHELL, "import os\ndef f(run=os.system):\n    run('x')"),
    (SHELL, "import importlib\nimportlib.import_module('subprocess').run('x')"),
    (SHELL, "import os\nos.__dict__['system']('x')"),
    (SHELL, "import os\nglobals()['os'].system('x')"),
    (SHELL, "import sh\nsh.ls()"),
    (INSTALL, "!python -m pip install -r requirements.txt"),
    (INSTALL, "!{sys.executable} -m pip install x"),
    (INSTALL, "%mamba install x"),
    (INSTALL, "!uv add polars"),
    (INSTALL, "import subprocess\nsubprocess.run('conda install -y x', shell=True)"),
    (INSTALL, "import subprocess\ncmd = ['pip', 'install', 'x']\nsubprocess.run(cmd)"),
    (NETWORK, "import requests as rq\nwith rq.Session() as s:\n    s.post('http://a')"),
    (NETWORK, "from httpx import Client\nClient(base_url='x').get('/')"),
    (NETWORK, "from urllib.request import urlopen, Request\nurlopen(Request('https://a'))"),
    (SHELL, "!curl https://x"),
    (NETWORK, "import pandas as pd\nURL='https://a/b.csv'\ndef load():\n    return pd.read_csv(URL)\nload()"),
    (NETWORK, "pd.concat([pd.read_csv(u) for u in ['https://a/1.csv','https://a/2.csv']])"),
    (NETWORK, "pd.read_html('https://en.wikipedia.org/wiki/X')[0]"),
    (NETWORK, "gpd.read_file('https://a/b.geojson')"),
    (NETWORK, "duckdb.read_csv('https://a/b.csv')"),
    (NETWORK, "con.execute('INSTALL httpfs; LOAD httpfs;')"),
    (NETWORK, "con.sql(\"attach 'postgres:dbname=x' as pg (type postgres)\")"),
    (NETWORK, "import psycopg2\npsycopg2.connect(dsn)"),
    (NETWORK, "import redis\nr = redis.Redis()\nr.get('a')"),
    (NETWORK, "from openai import OpenAI\nclient = OpenAI()\nclient.chat.completions.create(model='x', messages=[])"),
    (NETWORK, "import boto3\ns3 = boto3.resource('s3')\ns3.Bucket('x').download_file('a','b')"),
    (NETWORK, "import urllib3\nurllib3.PoolManager().request('GET', u)"),
    (NETWORK, "from vega_datasets import data\npd.read_json(data.movies.url)"),
    (NETWORK, "import torch\ntorch.hub.load('a','b')"),
    (NETWORK, "import requests\nget = requests.get\nx = [get(u) for u in us]"),
    (NETWORK, "import pyarrow.fs as fs\nfs.S3FileSystem()"),
    (NETWORK, "pd.read_csv(f'https://example.org/{year}.csv', storage_options={})"),
    (NETWORK, "np.loadtxt('https://a/b.txt')"),
    (NETWORK, "pd.read_sql('select 1', 'postgresql://u:p@h/d')"),
    (NETWORK, "df.to_sql('t', 'postgresql://u:p@h/d')"),
    (NETWORK, "import asyncio\nr, w = await asyncio.open_connection('a', 80)"),
    (DELETION, "import os\nos.removedirs('a')"),
    (DELETION, "import pathlib\npathlib.Path('a').rmdir()"),
    (DELETION, "[p.unlink() for p in Path('.').iterdir()]"),
    (DELETION, "import shutil as sh2\nfor d in ds: sh2.rmtree(d)"),
    (DELETION, "from os import (remove, path)\nif path.exists('a'): remove('a')"),
    (DELETION, "import os\ncleanup = [os.remove, os.rmdir]\nfor c in cleanup: c('x')"),
    (DELETION, "import os, contextlib\nwith contextlib.suppress(OSError):\n    os.unlink('x')"),
    (DELETION, "import atexit, os\natexit.register(os.remove, 'x')"),
    (DELETION, "import os\n@atexit.register\ndef bye():\n    os.remove('x')"),
    (DELETION, "import os\nx = os.path.exists('a') and os.remove('a')"),
    (DELETION, "import os\nclass T:\n    def __del__(self):\n        os.remove(self.p)"),
    (DELETION, "Path('a').replace('b')"),
    (DELETION, "exec(\"\"\"import os\nos.remove('a')\"\"\")"),
    (DELETION, "rm -rf out"),
    (OUTSIDE, "import os\nfd = os.open('/etc/x', os.O_WRONLY | os.O_CREAT)"),
    (OUTSIDE, "p = Path('/tmp')\n(p / 'a' / 'b.txt').write_text('x')"),
    (OUTSIDE, "open(file='/etc/x', mode='w')"),
    (OUTSIDE, "m='w'\nopen('/etc/x', m)"),
    (OUTSIDE, "with pd.ExcelWriter('/tmp/a.xlsx') as w:\n    df.to_excel(w)"),
    (OUTSIDE, "import json\nwith Path('../cfg.json').open('w') as f: json.dump({}, f)"),
    (OUTSIDE, "import tempfile, os\nopen(os.path.join(tempfile.gettempdir(),'x'),'w')"),
    (OUTSIDE, "plt.savefig('../fig.png')"),
    (OUTSIDE, "alt.Chart(df).mark_bar().save('/tmp/c.png')"),
    (OUTSIDE, "import shutil\nshutil.copytree('a', Path.home()/'b')"),
    (OUTSIDE, "df.write_parquet('../x.parquet')"),
    (OUTSIDE, "import sys\nsys.stdout = open('/tmp/log', 'w')"),
    (OUTSIDE, "open('..\\u002fx', 'w')"),
    (OUTSIDE, "import os\nHOME = os.environ['HOME']\nopen(HOME + '/x', 'w')"),
    (SECRET, "import os\nos.environ.get('HF_TOKEN')"),
    (SECRET, "import os\ncfg = dict(os.environ)"),
    (SECRET, "import os\nfor k, v in os.environ.items(): print(k, v)"),
    (SECRET, "from pathlib import Path\nkey = Path('~/.ssh/id_ed25519').expanduser().read_text()"),
    (SECRET, "import json, os\njson.load(open(os.path.expanduser('~/.kaggle/kaggle.json')))"),
    (SECRET, "from dotenv import dotenv_values\ndotenv_values('.env')"),
    (SECRET, "import netrc\nnetrc.netrc()"),
    (SECRET, "import os\n[os.environ[k] for k in ks]"),
    (SECRET, "import os\nos.listdir(os.path.expanduser('~/.ssh'))"),
    (SECRET, "%cat ~/.aws/credentials"),
    (SECRET, "import os\nos.getenv(name)"),
    (SECRET, "import boto3, os\nprint(os.environ.copy())"),
    (PROCESS, "import os, signal\nos.kill(pid, signal.SIGTERM)"),
    (PROCESS, "from os import _exit as e\ne(1)"),
    (PROCESS, "import psutil\nfor p in psutil.process_iter(): p.kill()"),
    (PROCESS, "import ctypes as c\nc.cdll.LoadLibrary('x')"),
    (DYNAMIC, "exec(requests.get(u).text)"),
    (DYNAMIC, "e = eval\ne(x)"),
    (DYNAMIC, "import types\ntypes.FunctionType(c, {})"),
    (DYNAMIC, "globals()['exec'](code)"),
    (DYNAMIC, "__builtins__.exec(x)"),
    (DYNAMIC, "import builtins as b\ngetattr(b, 'ex'+'ec')(x)"),
    (DYNAMIC, "__import__('o'+x)"),
    (DELETION, "%%timeit -n 10 -r 3\nimport os\nos.remove('a')"),
    (DELETION, "%timeit -n 10 -r3 os.remove('a')"),
    (DELETION, "%%prun -s cumulative\nimport os\nos.remove('a')"),
    (DYNAMIC, "open(*args)"),
    (DYNAMIC, "open('x', **options)"),
    (OUTSIDE, "import os\nflags = os.O_WRONLY\nos.open('/etc/x', flags)"),
    (OUTSIDE, "import os\nos.open('/etc/x', flags=os.O_RDWR)"),
    (OUTSIDE, "import duckdb\nduckdb.connect(database='/tmp/x.duckdb')"),
    (OUTSIDE, "import logging\nlogging.basicConfig(filename='/tmp/x.log')"),
    (OUTSIDE, "%save -f /tmp/x 1-3"),
    (OUTSIDE, "%store x >> ~/x.txt"),
    (PROCESS, "%killbgscripts"),
    (NETWORK, "from transformers import pipeline\npipeline('sentiment-analysis')"),
    (NETWORK, "import kagglehub\nkagglehub.dataset_download('a/b')"),
    (NETWORK, "import pandas_gbq\npandas_gbq.to_gbq(df, 'a.b')"),
]  # fmt: skip


def reaches(code: str, **given: object) -> tuple[Reach, ...]:
    return screened(code, workspace=WORKSPACE, **given)  # type: ignore[arg-type]


def kinds(code: str, **given: object) -> set[ReachKind]:
    return {reach.kind for reach in reaches(code, **given)}


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len(HARMLESS) >= 60
    assert len({code for _, code in REACHING}) == len(REACHING) >= 80
    assert {kind for kind, _ in REACHING} == set(ReachKind)


@pytest.mark.parametrize("name", HARMLESS)
def test_an_ordinary_analysis_reaches_nothing(name: str) -> None:
    assert reaches(HARMLESS[name]) == ()


@pytest.mark.parametrize(("kind", "code"), REACHING, ids=[f"{k}-{c}" for k, c in REACHING])
def test_what_reaches_outside_is_found_with_its_kind(kind: ReachKind, code: str) -> None:
    found = reaches(code)
    assert kind in {reach.kind for reach in found}
    for reach in found:
        assert 1 <= reach.line <= len(code.splitlines())
        assert reach.what


PLAIN = [
    (kind, code)
    for kind, code in REACHING
    if "import *" not in code and '"""' not in code and parsed(code) is not None
]


@pytest.mark.parametrize(("kind", "code"), PLAIN, ids=[f"{k}-{c}" for k, c in PLAIN])
@pytest.mark.parametrize("head", ["async def step():\n", "if ready:\n", "class Step:\n"])
def test_it_is_found_wherever_it_stands(kind: ReachKind, code: str, head: str) -> None:
    assert kind in kinds(head + textwrap.indent(code, "    "))


def test_what_ipython_makes_of_a_cell_is_read_like_the_cell() -> None:
    from IPython.core.inputtransformer2 import TransformerManager

    for cell in (
        "!rm -rf out",
        "%%bash\npip install x\n",
        "%pip install x",
        "x = !ls",
        "%time f()",
    ):
        assert kinds(TransformerManager().transform_cell(cell)) == kinds(cell)


def test_each_reach_says_where_it_stands_and_one_sentence_for_people() -> None:
    code = "import os, shutil\n\nos.remove('a')\ndf.to_csv('/tmp/x.csv')  # aside\n!pip install y"
    found = reaches(code)
    assert [(each.kind, each.line) for each in found] == [
        (DELETION, 3),
        (OUTSIDE, 4),
        (INSTALL, 5),
    ]
    assert found[1].what == "/tmp/x.csv"
    assert found[1].source_line == "df.to_csv('/tmp/x.csv') # aside"
    assert found[1].sentence == "Line 4 writes outside the workspace: /tmp/x.csv."
    assert found[2].sentence == "Line 5 changes the installed packages: !pip install y."


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import os\nos.remove('old/a.csv')", "os.remove old/a.csv"),
        ("import os\nos.remove(path='a.csv')", "os.remove a.csv"),
        ("import os\nos.remove('/home/ada/work/old/a.csv')", "os.remove old/a.csv"),
        ("import os\nos.unlink('/srv/a.csv')", "os.unlink /srv/a.csv"),
        ("import os\nos.remove('../a.csv')", "os.remove /home/ada/a.csv"),
        ("import os\nos.remove('~/a.csv')", "os.remove ~/a.csv"),
        ("import os\nos.chdir('old')\nos.remove('a.csv')", "os.remove old/a.csv"),
        ("from os import remove as rm\nname = 'a' + '.csv'\nrm(name)", "os.remove a.csv"),
        ("import os\nfor p in ['a.csv', 'b.csv']:\n    os.remove(p)", "os.remove a.csv or b.csv"),
        ("import os\nos.remove(f'out/{name}.csv')", "os.remove out/…"),
        ("import os\nos.remove(name)", "os.remove"),
        ("import shutil\nshutil.rmtree('out')", "shutil.rmtree out"),
        ("import shutil\nshutil.rmtree(Path('out') / 'old')", "shutil.rmtree out/old"),
        ("import shutil\nshutil.move('a.csv', '/srv/b.csv')", "shutil.move a.csv to /srv/b.csv"),
        ("import os\nos.replace(src='a.csv', dst=target)", "os.replace a.csv"),
        ("from send2trash import send2trash\nsend2trash(['a.csv'])", "send2trash.send2trash a.csv"),
        ("from pathlib import Path\nPath('old/a.csv').unlink()", "old/a.csv.unlink()"),
        ("from pathlib import Path\n(Path.cwd() / 'a.csv').resolve().unlink()", "a.csv.unlink()"),
        ("from pathlib import Path\nPath('/srv/x').rmdir()", "/srv/x.rmdir()"),
        ("from pathlib import Path\nPath('a.csv').with_suffix('.bak').unlink()", "a….unlink()"),
        ("for p in paths:\n    p.unlink()", "p.unlink()"),
    ],
)
def test_what_is_deleted_is_named_as_it_lies_in_the_workspace(code: str, what: str) -> None:
    assert [each.what for each in reaches(code) if each.kind is DELETION] == [what]


def test_what_is_deleted_is_named_by_what_earlier_cells_have_bound() -> None:
    bound = {"target": Path("/home/ada/work/old/a.csv"), "wipe": shutil.rmtree}
    assert [each.sentence for each in reaches("import os\nos.remove(target)", namespace=bound)] == [
        "Line 2 deletes or moves files: os.remove old/a.csv."
    ]
    assert reaches("wipe(target)", namespace=bound)[0].what == "shutil.rmtree old/a.csv"


def test_a_magic_that_goes_over_several_lines_moves_no_other_line() -> None:
    code = "x = 1\n!echo a \\\n  b \\\n  c\nimport os\nos.remove('a')"
    assert [(each.kind, each.line) for each in reaches(code)] == [(SHELL, 2), (DELETION, 6)]


def test_paths_are_seen_from_the_folder_in_which_the_code_runs() -> None:
    inside = "df.to_csv('../x.csv')"
    assert kinds(inside) == {OUTSIDE}
    assert kinds(inside, folder=WORKSPACE / "sub") == set()
    assert kinds("df.to_csv('../../x.csv')", folder=WORKSPACE / "sub") == {OUTSIDE}
    assert kinds("import os\nos.chdir('sub')\ndf.to_csv('../x.csv')") == set()


def test_names_of_earlier_cells_stand_for_what_they_are_bound_to() -> None:
    bound = {
        "o": os,
        "rm": os.remove,
        "wipe": functools.partial(shutil.rmtree, ignore_errors=True),
        "target": "/etc/x",
        "away": Path("/srv"),
        "env": os.environ,
        "w": open,
    }
    assert kinds("o.unlink('a')", namespace=bound) == {DELETION}
    assert kinds("rm('a')", namespace=bound) == {DELETION}
    assert kinds("wipe('a')", namespace=bound) == {DELETION}
    assert kinds("df.to_csv(target)", namespace=bound) == {OUTSIDE}
    assert kinds("df.to_csv(away / 'x.csv')", namespace=bound) == {OUTSIDE}
    assert kinds("env['API_KEY']", namespace=bound) == {SECRET}
    assert kinds("w('/etc/x', 'a')", namespace=bound) == {OUTSIDE}


def test_a_name_that_is_bound_to_something_else_is_not_taken_for_a_library() -> None:
    assert kinds("requests.get('a')") == {NETWORK}
    assert kinds("requests.get('a')", namespace={"requests": {"a": 1}}) == set()
    assert kinds("requests = {}\nrequests.get('a')") == set()


def test_an_object_of_the_namespace_is_not_asked_anything() -> None:
    class Loud:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"asked for {name}")

    assert kinds("loud.remove('x')", namespace={"loud": Loud()}) == set()


def test_one_call_is_told_once() -> None:
    assert len(reaches("import os\nos.remove('a')")) == 1
    assert len(reaches("import sys\ngetattr(sys.modules['os'], 'remove')('a')")) == 1
    assert len(reaches("import subprocess\nsubprocess.run(['ls'])")) == 1
    assert len(reaches("import os\nos.environ['API_KEY']")) == 1
    assert len(reaches("import requests\nrequests.get(url).json()['a']")) == 1


def test_a_cell_that_does_not_parse_gives_only_its_lines_for_ipython() -> None:
    assert reaches("os.remove('a'\nx = = 1") == ()
    found = reaches("x = = 1\ntext = '''\n!ls\n'''\n!date\n%pip install z")
    assert [(each.kind, each.line) for each in found] == [(SHELL, 5), (INSTALL, 6)]


def test_code_that_is_nested_too_deeply_to_be_read_is_said_to_be() -> None:
    deep = "x = " + "+".join(["a"] * 20_000)
    assert kinds(deep) <= {DYNAMIC}


def test_no_cell_takes_long_to_read() -> None:
    assert kinds("!" + "pip " * 50_000) == {SHELL}
    assert reaches("%time " + "-n 10 " * 20_000 + "x !") == ()
    assert reaches("x" + " " * 100_000 + "!") == ()
    lists = "a = [open]\n" + "a = [*a, a[0], {1: a}]\n" * 300
    assert reaches(lists) == ()
    chain = "q = frame" + "".join(f".with_columns(pl.col('a{n}'))" for n in range(60))
    assert reaches(chain) == ()
    doubling = "a = 'xxxxxxxxxx'\n" + "a = a + a\n" * 200 + "open(a, 'w')"
    assert reaches(doubling) == ()
    nested = (
        "f = abspath if c else realpath\nfrom os.path import *\n" + "str(" * 60 + "'a'" + ")" * 60
    )
    assert reaches(nested) == ()


CELL = st.lists(
    st.sampled_from(
        [
            "!", "%", "%%", "!!", "?", "\\", "'", '"', "'''", '"""', "(", ")", "[", "]", "{", "}",
            "\n", "\r", "\x0b", "\0", "  ", "import os", "os", ".remove", "exec(", "'x'", "=", ",",
            "f'{", "bash", "pip install", "def f():", "lambda", ":", "class A:", "match x:", "é",
            "\ud800", "time", ">>> ", "get_ipython()", ".run_cell_magic", "*", "await", "del ", "a",
        ]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@given(code=st.one_of(st.text(max_size=200), CELL))
@settings(max_examples=400, deadline=None)
def test_any_text_has_an_answer(code: str) -> None:
    for reach in reaches(code):
        assert isinstance(reach.kind, ReachKind)
        assert reach.line >= 1
        assert "\n" not in reach.sentence


@given(noise=st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_what_stands_in_a_text_is_not_done(noise: str) -> None:
    assert reaches(f"note = {noise!r}\nprint(note)") == ()
