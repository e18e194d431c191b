//! Modules of Python that a file of the project can stand in place of, by its name.

use super::TEST_FOLDERS;

/// Modules that a runner or a test imports. A file of that name in the project's or the tests' own folder, or in `src`, is taken in their place.
const IMPORTED: &str = "\
    pytest _pytest unittest pluggy iniconfig packaging coverage doctest importlib inspect json os sys re time random \
    datetime typing collections functools subprocess pathlib warnings traceback";

/// Further modules of Python's library that runners import. A source of such a name is an ordinary one below `src`; beside the runner it is taken
/// in their place.
const OF_RUNNERS: &str = "\
    abc argparse ast asyncio atexit bdb bisect cmd codecs concurrent contextlib copy copyreg dataclasses difflib dis \
    encodings enum fnmatch gc genericpath gettext glob heapq io itertools keyword linecache locale logging math mock \
    opcode operator pdb pkgutil platform posixpath pprint py reprlib runpy selectors shlex shutil signal site socket \
    stat struct sysconfig tempfile textwrap threading tokenize types weakref xml";

/// The rest of the library: tests may know by it what to expect.
const OF_TESTS: &str = "\
    _abc _aix_support _ast _asyncio _bisect _blake2 _bootsubprocess _bz2 _codecs _codecs_cn _codecs_hk _codecs_iso2022 \
    _codecs_jp _codecs_kr _codecs_tw _collections _collections_abc _compat_pickle _compression _contextvars _crypt \
    _csv _ctypes _curses _curses_panel _datetime _dbm _decimal _elementtree _frozen_importlib \
    _frozen_importlib_external _functools _gdbm _hashlib _heapq _imp _io _json _locale _lsprof _lzma _markupbase _md5 \
    _msi _multibytecodec _multiprocessing _opcode _operator _osx_support _overlapped _pickle _posixshmem \
    _posixsubprocess _py_abc _pydecimal _pyio _queue _random _scproxy _sha1 _sha256 _sha3 _sha512 _signal \
    _sitebuiltins _socket _sqlite3 _sre _ssl _stat _statistics _string _strptime _struct _symtable _thread \
    _threading_local _tkinter _tokenize _tracemalloc _typing _uuid _warnings _weakref _weakrefset _winapi _zoneinfo \
    aifc array asynchat asyncore audioop base64 binascii builtins bz2 cProfile calendar cgi cgitb chunk cmath code \
    codeop colorsys compileall configparser contextvars crypt csv ctypes curses dbm decimal distutils email ensurepip \
    errno faulthandler fcntl filecmp fileinput fractions ftplib getopt getpass graphlib grp gzip hashlib hmac html \
    http imaplib imghdr imp ipaddress lib2to3 lzma mailbox mailcap marshal mimetypes mmap modulefinder msilib msvcrt \
    multiprocessing netrc nis nntplib nt ntpath nturl2path numbers optparse ossaudiodev pickle pickletools pipes \
    plistlib poplib posix profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri readline \
    resource rlcompleter sched secrets select shelve smtpd smtplib sndhdr socketserver spwd sqlite3 sre_compile \
    sre_constants sre_parse ssl statistics string stringprep sunau symtable syslog tabnanny tarfile telnetlib termios \
    timeit token tomllib trace tracemalloc tty unicodedata urllib uu uuid venv wave webbrowser winreg winsound wsgiref \
    xdrlib xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// How Python's files of code end: what is written, and what was compiled before.
const ENDINGS: [&str; 4] = ["py", "pyc", "so", "pyd"];

fn has(list: &str, module: &str) -> bool {
    list.split_whitespace().any(|known| known == module)
}

/// The module that a file would be, and whether it lies beside the runner or in `src`.
fn module(path: &str) -> Option<(&str, bool, bool)> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let (name, endings) = parts.last()?.split_once('.')?;
    let ending = endings.rsplit('.').next()?;
    ENDINGS.contains(&ending).then_some(())?;
    parts.pop();
    let module = if name == "__init__" { parts.pop()? } else { name };
    let is_beside = parts.is_empty() || parts.len() == 1 && TEST_FOLDERS.contains(&parts[0]);
    Some((module, is_beside, parts == ["src"]))
}

/// A file that Python would import in place of a module of the runner, or of its library.
pub(super) fn is_shadow(path: &str) -> bool {
    module(path).is_some_and(|(module, is_beside, is_source)| {
        (is_beside || is_source) && has(IMPORTED, module) || is_beside && (has(OF_RUNNERS, module) || has(OF_TESTS, module))
    })
}

/// One by which no runner is changed. Where it was there before, it is the project's own, and tests knew it.
pub(super) fn is_own_if_old(path: &str) -> bool {
    module(path).is_some_and(|(module, ..)| has(OF_TESTS, module))
}
