"""Which installed modules make up which host of the local web, and what each host is about.

The topic of a page is known from its section, so a crawl of the local web can be marked right or wrong without anybody
labelling pages by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

STDLIB = "python"

# Topic, host, modules. A module written with a star is published with its public submodules.
_ROWS: tuple[tuple[str, str, str], ...] = (
    ("networking", "socket.python.test", "socket select selectors"),
    ("networking", "servers.python.test", "socketserver asyncore asynchat ipaddress"),
    ("networking", "transfer.python.test", "ftplib telnetlib nntplib"),
    ("networking", "ssl.python.test", "ssl"),
    ("web protocols", "http.python.test", "http http.client http.server http.cookies http.cookiejar"),
    ("web protocols", "urllib.python.test",
     "urllib.request urllib.parse urllib.error urllib.robotparser urllib.response"),
    ("web protocols", "wsgi.python.test", "wsgiref* cgi cgitb xmlrpc.client xmlrpc.server webbrowser"),
    ("email", "email.python.test", "email*"),
    ("email", "mail.python.test", "mailbox smtplib poplib imaplib mimetypes base64 quopri uu binascii mailcap"),
    ("cryptography", "hashes.python.test", "hashlib hmac secrets crypt uuid"),
    ("data compression", "compress.python.test", "zlib gzip bz2 lzma"),
    ("data compression", "archives.python.test", "zipfile tarfile zipapp zipimport"),
    ("concurrency", "asyncio.python.test", "asyncio*"),
    ("concurrency", "threads.python.test", "threading queue sched contextvars _thread concurrent.futures*"),
    ("concurrency", "multiprocessing.python.test", "multiprocessing*"),
    ("text processing", "text.python.test", "string re textwrap difflib shlex pprint reprlib"),
    ("text processing", "unicode.python.test", "codecs unicodedata stringprep encodings* gettext locale html*"),
    ("file formats", "formats.python.test", "csv configparser tomllib plistlib netrc xdrlib json*"),
    ("file formats", "xml.python.test", "xml*"),
    ("file formats", "media.python.test", "wave aifc sunau chunk colorsys sndhdr imghdr audioop struct"),
    ("operating system", "os.python.test", "os os.path posix stat errno pwd grp platform resource signal"),
    ("operating system", "files.python.test",
     "pathlib shutil glob fnmatch tempfile filecmp fileinput linecache io mmap fcntl"),
    ("operating system", "processes.python.test",
     "subprocess pty tty termios syslog sys ctypes* atexit faulthandler gc"),
    ("databases", "sqlite.python.test", "sqlite3* dbm* shelve"),
    ("databases", "persistence.python.test", "pickle pickletools copyreg marshal copy"),
    ("mathematics", "math.python.test", "math cmath numbers fractions decimal"),
    ("statistics", "statistics.python.test", "statistics random"),
    ("data structures", "collections.python.test", "collections collections.abc array weakref types enum builtins"),
    ("data structures", "algorithms.python.test", "heapq bisect itertools functools operator graphlib dataclasses"),
    ("dates and times", "time.python.test", "datetime time zoneinfo* calendar timeit"),
    ("command line", "console.python.test",
     "argparse optparse getopt getpass cmd code codeop curses* readline rlcompleter"),
    ("command line", "logging.python.test", "logging*"),
    ("testing", "unittest.python.test", "unittest*"),
    ("testing", "debugging.python.test",
     "doctest pdb bdb trace tracemalloc traceback warnings cProfile profile pstats"),
    ("programming languages", "syntax.python.test",
     "ast tokenize token symtable dis opcode py_compile compileall tabnanny"),
    ("programming languages", "imports.python.test",
     "importlib* pkgutil runpy modulefinder site sysconfig venv zipimport"),
    ("programming languages", "typing.python.test", "typing inspect abc contextlib pydoc pyclbr"),
    ("programming languages", "language.python.test", "pydoc_data.topics"),
    ("programming languages", "lib2to3.python.test", "lib2to3* distutils*"),
    ("arrays", "arrays.numpy.test", "numpy"),
    ("arrays", "masked.numpy.test", "numpy.ma numpy.lib* numpy.rec"),
    ("arrays", "types.numpy.test",
     "numpy.dtypes numpy.typing numpy.ctypeslib numpy.exceptions numpy.strings numpy.char"),
    ("linear algebra", "linalg.numpy.test", "numpy.linalg numpy.matlib"),
    ("signal processing", "fft.numpy.test", "numpy.fft"),
    ("statistics", "random.numpy.test", "numpy.random"),
    ("mathematics", "polynomial.numpy.test", "numpy.polynomial*"),
    ("testing", "testing.numpy.test", "numpy.testing"),
    ("machine learning/clustering", "cluster.scipy.test", "scipy.cluster.vq scipy.cluster.hierarchy"),
    ("signal processing", "fft.scipy.test", "scipy.fft scipy.fftpack"),
    ("signal processing", "signal.scipy.test", "scipy.signal scipy.signal.windows"),
    ("signal processing", "ndimage.scipy.test", "scipy.ndimage"),
    ("numerical analysis", "integrate.scipy.test", "scipy.integrate scipy.differentiate"),
    ("numerical analysis", "interpolate.scipy.test", "scipy.interpolate"),
    ("file formats", "io.scipy.test", "scipy.io scipy.io.wavfile scipy.io.arff scipy.datasets"),
    ("linear algebra", "linalg.scipy.test", "scipy.linalg scipy.linalg.blas scipy.linalg.lapack"),
    ("linear algebra", "sparse.scipy.test", "scipy.sparse scipy.sparse.linalg scipy.sparse.csgraph"),
    ("optimization", "optimize.scipy.test", "scipy.optimize"),
    ("numerical analysis", "spatial.scipy.test", "scipy.spatial scipy.spatial.distance scipy.spatial.transform"),
    ("mathematics", "special.scipy.test", "scipy.special"),
    ("mathematics", "constants.scipy.test", "scipy.constants"),
    ("statistics", "stats.scipy.test", "scipy.stats scipy.stats.mstats scipy.stats.qmc scipy.stats.contingency"),
    ("machine learning/clustering", "cluster.sklearn.test", "sklearn.cluster sklearn.mixture"),
    ("machine learning/classification", "linear.sklearn.test", "sklearn.linear_model sklearn.svm"),
    ("machine learning/classification", "trees.sklearn.test", "sklearn.ensemble sklearn.tree"),
    ("machine learning/classification", "bayes.sklearn.test",
     "sklearn.naive_bayes sklearn.discriminant_analysis sklearn.neighbors sklearn.neural_network "
     "sklearn.gaussian_process sklearn.gaussian_process.kernels sklearn.multiclass sklearn.multioutput "
     "sklearn.calibration sklearn.dummy sklearn.semi_supervised sklearn.isotonic sklearn.kernel_ridge"),
    ("machine learning/features", "features.sklearn.test",
     "sklearn.feature_extraction sklearn.feature_extraction.text sklearn.feature_extraction.image "
     "sklearn.feature_selection sklearn.preprocessing sklearn.impute sklearn.compose sklearn.kernel_approximation"),
    ("machine learning/features", "decomposition.sklearn.test",
     "sklearn.decomposition sklearn.manifold sklearn.random_projection sklearn.cross_decomposition"),
    ("machine learning/evaluation", "metrics.sklearn.test",
     "sklearn.metrics sklearn.metrics.pairwise sklearn.metrics.cluster sklearn.model_selection sklearn.inspection"),
    ("machine learning/evaluation", "datasets.sklearn.test",
     "sklearn.datasets sklearn.pipeline sklearn.base sklearn.utils sklearn.utils.validation sklearn.covariance"),
    ("databases", "arrow.columnar.test",
     "pyarrow pyarrow.compute pyarrow.dataset pyarrow.parquet pyarrow.fs pyarrow.flight"),
    ("file formats", "files.columnar.test",
     "pyarrow.csv pyarrow.json pyarrow.feather pyarrow.orc pyarrow.ipc pyarrow.types"),
    ("databases", "duckdb.columnar.test", "duckdb"),
    ("command line", "click.terminal.test", "click*"),
    ("command line", "rich.terminal.test", "rich*"),
    ("concurrency", "joblib.parallel.test", "joblib*"),
    ("testing", "hypothesis.checks.test",
     "hypothesis hypothesis.strategies hypothesis.stateful hypothesis.extra.numpy"),
    ("testing", "pytest.checks.test", "pytest"),
    ("data compression", "zstd.squeeze.test", "zstandard brotli isal isal.isal_zlib isal.igzip"),
    ("cryptography", "fernet.secrets.test", "cryptography* OpenSSL.crypto OpenSSL.SSL"),
    ("networking", "dns.lookup.test", "dns* pycares pycurl"),
)  # fmt: skip

# The small web: light to import and in every Python, enough topics to tell apart.
SMALL_HOSTS: tuple[str, ...] = (
    "socket.python.test",
    "hashes.python.test",
    "compress.python.test",
    "threads.python.test",
    "text.python.test",
    "statistics.python.test",
    "algorithms.python.test",
    "math.python.test",
)

# Distributions whose version, licence and description the web is made of, next to Python itself.
DISTRIBUTIONS: tuple[str, ...] = (
    "numpy", "scipy", "scikit-learn", "pyarrow", "duckdb", "click", "rich", "joblib", "hypothesis", "pytest",
    "zstandard", "brotli", "isal", "cryptography", "pyOpenSSL", "dnspython", "pycares", "pycurl",
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """One host of documentation: what it is about and which modules it publishes."""

    host: str
    topic: str
    modules: tuple[str, ...]

    @property
    def package(self) -> str:
        """The group of sections that are read in one process: the standard library, or one installed package."""
        return STDLIB if self.host.endswith(".python.test") else self.modules[0].rstrip("*").partition(".")[0]

    @property
    def name(self) -> str:
        """What the site calls itself: `linalg numpy` for linalg.numpy.test."""
        return self.host.removesuffix(".test").replace(".", " ")


SECTIONS: tuple[Section, ...] = tuple(Section(host, topic, tuple(modules.split())) for topic, host, modules in _ROWS)


def small_sections() -> tuple[Section, ...]:
    """The sections of the small web."""
    return tuple(section for section in SECTIONS if section.host in SMALL_HOSTS)
