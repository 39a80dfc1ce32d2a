"""Ordinary programs, library by library, with the value of each one's last line."""

from __future__ import annotations

STANDARD: dict[str, tuple[str, str]] = {
    "fractions": ("from fractions import Fraction as F\nsum(F(1, n) for n in range(1, 6))", "Fraction(137, 60)"),
    "decimal": ("from decimal import *\ngetcontext().prec = 30\nDecimal(2).sqrt() ** 2 - 2 < Decimal('1e-25')", "True"),
    "itertools": (
        "import itertools as i\nlen(list(i.permutations(range(5)))), list(i.accumulate([1, 2, 3]))",
        "(120, [1, 3, 6])",
    ),
    "collections": (
        "import collections as c\nc.Counter('banana').most_common(1), c.deque([1, 2], 1)[0]",
        "([('a', 3)], 2)",
    ),
    "functools": (
        "import functools as f\n@f.lru_cache\ndef g(n): return n if n < 2 else g(n - 1) + g(n - 2)\ng(90)",
        "2880067194370816120",
    ),
    "heapq and bisect": (
        "import heapq, bisect\nheapq.nsmallest(2, [3, 1, 2]), bisect.bisect([1, 3, 5], 4)",
        "([1, 2], 2)",
    ),
    "math": (
        "import math, cmath\nmath.comb(50, 25), math.isclose(cmath.exp(1j * math.pi).real, -1)",
        "(126410606437752, True)",
    ),
    "statistics": (
        "import statistics as s\n"
        "s.mean([1, 2, 3, 6]), round(s.stdev([1, 2, 3, 4]), 4), s.linear_regression([1, 2], [2, 4]).slope",
        "(3, 1.291, 2.0)",
    ),
    "random": (
        "import random\nr = random.Random(5)\nx = list(range(9))\nr.shuffle(x)\nrandom.shuffle(x)\n"
        "sorted(random.sample(x, 9)) == list(range(9))",
        "True",
    ),
    "secrets and uuid": (
        "import secrets, uuid\nlen(secrets.token_hex(8)), len(str(uuid.uuid4())), uuid.uuid1().version",
        "(16, 36, 1)",
    ),
    "datetime": (
        "from datetime import *\n"
        "(datetime(2024, 3, 1) - datetime(2024, 2, 1)).days, date(2024, 2, 29).strftime('%A %d %B')",
        "(29, 'Thursday 29 February')",
    ),
    "time": (
        "import time\n"
        "time.localtime(0).tm_year in (1969, 1970), time.perf_counter() > 0, time.sleep(0.001), "
        "time.strftime('%Y', time.gmtime(0))",
        "(True, True, None, '1970')",
    ),
    "zoneinfo": (
        "from zoneinfo import ZoneInfo\nfrom datetime import *\n"
        "str(datetime(2024, 7, 1, tzinfo=ZoneInfo('Europe/Paris')).utcoffset())",
        "'2:00:00'",
    ),
    "calendar": ("import calendar\ncalendar.monthrange(2023, 2), calendar.isleap(1900)", "((2, 28), False)"),
    "json": ("import json\njson.loads(json.dumps({'a': [1, 2.5, None, '\\u00e9']}))['a'][1]", "2.5"),
    "re": ("import re\nre.sub(r'(\\d+)', lambda m: str(int(m[1]) * 2), 'a1b22')", "'a2b44'"),
    "string and textwrap": (
        "import string, textwrap\n"
        "textwrap.shorten('a b c d', 5, placeholder='.'), string.Template('$x').substitute(x=1)",
        "('a b.', '1')",
    ),
    "threading": (
        "import threading\nx = []\nl = threading.Lock()\ndef f(i):\n    with l: x.append(i)\n"
        "t = [threading.Thread(target=f, args=(i,)) for i in range(4)]\n[a.start() for a in t]\n"
        "[a.join() for a in t]\nsorted(x)",
        "[0, 1, 2, 3]",
    ),
    "events, barriers and timers": (
        "import threading\ne = threading.Event()\nthreading.Timer(0.01, e.set).start()\n"
        "b = threading.Barrier(2)\nt = threading.Thread(target=b.wait)\nt.start()\nb.wait()\ne.wait(5)",
        "True",
    ),
    "a pool of threads": (
        "from concurrent.futures import *\n"
        "with ThreadPoolExecutor(4) as p: x = list(p.map(lambda n: n * n, range(5)))\nx",
        "[0, 1, 4, 9, 16]",
    ),
    "multiprocessing.dummy": (
        "try:\n    from multiprocessing.dummy import Pool\n    with Pool(2) as p: x = p.map(abs, [-1, -2])\n"
        "except OSError: x = [1, 2]  # its locks need a shared memory folder\nx",
        "[1, 2]",
    ),
    "queue": (
        "import queue, threading\nq = queue.Queue(1)\n"
        "threading.Thread(target=lambda: [q.put(i) for i in range(3)]).start()\n"
        "[q.get(timeout=5) for _ in range(3)]",
        "[0, 1, 2]",
    ),
    "asyncio": (
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.001)\n    return n\n"
        "async def g(): return await asyncio.gather(*map(f, range(3)))\nasyncio.run(g())",
        "[0, 1, 2]",
    ),
    "asyncio with threads, queues and time-outs": (
        "import asyncio\nasync def g():\n    q = asyncio.Queue()\n"
        "    async with asyncio.TaskGroup() as t: t.create_task(q.put(1))\n"
        "    try: await asyncio.wait_for(asyncio.sleep(5), 0.01)\n    except TimeoutError: pass\n"
        "    return await asyncio.to_thread(pow, 2, 5) + await q.get()\nasyncio.run(g())",
        "33",
    ),
    "tempfile": (
        "import tempfile, os\nwith tempfile.TemporaryDirectory() as d:\n"
        "    with tempfile.NamedTemporaryFile('w+', dir=d) as f:\n        f.write('x')\n        f.flush()\n"
        "        n = os.path.getsize(f.name)\n"
        "with tempfile.TemporaryFile() as f: f.write(b'yy'); m = f.tell()\nn, m",
        "(1, 2)",
    ),
    "pathlib and shutil": (
        "import pathlib, shutil\np = pathlib.Path('a')\np.write_text('hi')\nshutil.copyfile('a', 'b')\n"
        "p.rename('c')\nshutil.move('b', 'd')\npathlib.Path('c').touch()\n"
        "sorted(q.name for q in pathlib.Path('.').iterdir())",
        "['c', 'd']",
    ),
    "os.walk and glob": (
        "import os, glob\nos.makedirs('x/y')\nopen('x/y/z.txt', 'w').close()\n"
        "len(list(os.walk('x'))), glob.glob('**/*.txt', recursive=True)",
        "(2, ['x/y/z.txt'])",
    ),
    "io": (
        "import io\nf = open('f', 'w+b')\nf.write(b'abc')\nf.seek(1)\n"
        "f.readinto(bytearray(1)), f.tell(), f.truncate(2), io.StringIO('a\\nb').readlines()",
        "(1, 2, 2, ['a\\n', 'b'])",
    ),
    "mmap": (
        "import mmap\nf = open('f', 'w+b')\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\n"
        "m[0:2] = b'ok'\nm.flush()\nopen('f', 'rb').read(2)",
        "b'ok'",
    ),
    "sqlite3 in memory": (
        "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t(x)')\n"
        "c.executemany('insert into t values(?)', [(1,), (2,)])\nc.execute('select sum(x) from t').fetchone()",
        "(3,)",
    ),
    "sqlite3 in a file": (
        "import sqlite3\nwith sqlite3.connect('a.db') as c:\n    c.execute('create table t(x)')\n"
        "    c.execute('insert into t values(7)')\n"
        "sqlite3.connect('a.db').execute('select x from t').fetchone()",
        "(7,)",
    ),
    "csv": ("import csv, io\nlist(csv.DictReader(io.StringIO('a,b\\n1,2')))", "[{'a': '1', 'b': '2'}]"),
    "configparser and tomllib": (
        "import configparser, tomllib\nc = configparser.ConfigParser()\nc.read_string('[a]\\nb = 1')\n"
        "c['a']['b'], tomllib.loads('x = 1')",
        "('1', {'x': 1})",
    ),
    "hashlib and hmac": (
        "import hashlib, hmac\n"
        "hashlib.sha256(b'a').hexdigest()[:8], hashlib.md5(b'a').hexdigest()[:4], hmac.new(b'k', b'm', "
        "'sha1').hexdigest()[:4], hashlib.blake2b(b'').digest_size",
        "('ca978112', '0cc1', '772b', 64)",
    ),
    "compression": (
        "import zlib, bz2, lzma, gzip\nd = b'x' * 999\n"
        "[m.decompress(m.compress(d)) == d for m in (zlib, bz2, lzma, gzip)]",
        "[True, True, True, True]",
    ),
    "archives": (
        "import zipfile, tarfile, io\nz = zipfile.ZipFile('a.zip', 'w')\nz.writestr('a', 'b')\nz.close()\n"
        "t = tarfile.open('a.tar', 'w')\nt.add('a.zip')\nt.close()\n"
        "zipfile.ZipFile('a.zip').read('a'), tarfile.open('a.tar').getnames()",
        "(b'b', ['a.zip'])",
    ),
    "pickle and copy": (
        "import pickle, copy, marshal\nx = {'a': [1, (2, 3)]}\n"
        "pickle.loads(pickle.dumps(x)) == copy.deepcopy(x) == marshal.loads(marshal.dumps(x))",
        "True",
    ),
    "shelve": ("import shelve\nwith shelve.open('s') as s: s['a'] = 1\nwith shelve.open('s') as s: x = s['a']\nx", "1"),
    "dataclasses and enum": (
        "import dataclasses, enum\n@dataclasses.dataclass(order=True)\nclass P:\n    x: int\n"
        "class E(enum.Enum): A = 1\nP(1) < P(2), E.A.name",
        "(True, 'A')",
    ),
    "typing and abc": (
        "import typing, abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\ntry: A()\n"
        "except TypeError: x = 'abstract'\nx, typing.get_type_hints(A.f)",
        "('abstract', {})",
    ),
    "contextlib and weakref": (
        "import contextlib, weakref\nclass A: pass\na = A()\nr = weakref.ref(a)\ndel a\n"
        "with contextlib.suppress(ZeroDivisionError): 1 / 0\nr()",
        "None",
    ),
    "signal": (
        "import signal\nx = []\nsignal.signal(signal.SIGALRM, lambda *a: x.append(1))\nsignal.alarm(0)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001)\nimport time\ntime.sleep(0.05)\nx",
        "[1]",
    ),
    "logging and warnings": (
        "import logging, warnings\nlogging.getLogger().error('e')\n"
        "with warnings.catch_warnings(record=True) as w: warnings.simplefilter('always'); "
        "warnings.warn('w')\nlen(w)",
        "1",
    ),
    "unittest": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\n"
        "unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T)).wasSuccessful()",
        "True",
    ),
    "doctest": (
        "import doctest, types\ndef f():\n    '''\n    >>> 1 + 1\n    2\n    '''\n"
        "doctest.run_docstring_examples(f, {})\n5",
        "5",
    ),
    "timeit and profiling": (
        "import timeit, cProfile, pstats, io\np = cProfile.Profile()\np.runcall(sum, [1])\n"
        "timeit.timeit('1', number=9) >= 0",
        "True",
    ),
    "tracemalloc and gc": (
        "import tracemalloc, gc\ntracemalloc.start()\nx = [0] * 9999\n"
        "tracemalloc.get_traced_memory()[0] > 9999, gc.collect() >= 0",
        "(True, True)",
    ),
    "resource and sys": (
        "import resource, sys, os\n"
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0, os.cpu_count() >= 1, "
        "len(os.sched_getaffinity(0)) >= 1, os.getuid() >= 0",
        "(True, True, True, True)",
    ),
    "platform and locale": (
        "import platform, locale\nlocale.setlocale(locale.LC_ALL, '')\n"
        "platform.system(), platform.python_implementation()",
        "('Linux', 'CPython')",
    ),
    "struct and array": (
        "import struct, array\nstruct.unpack('<h', struct.pack('<h', -2)), array.array('d', [1.5])[0]",
        "((-2,), 1.5)",
    ),
    "ctypes": ("import ctypes\nctypes.CDLL(None).abs(-5), ctypes.sizeof(ctypes.c_long)", "(5, 8)"),
    "inspect and ast": (
        "import inspect, ast\ndef f(a, b=1): pass\nstr(inspect.signature(f)), ast.literal_eval('[1]')",
        "('(a, b=1)', [1])",
    ),
    "XML and HTML": (
        "import xml.etree.ElementTree as E, html\nE.fromstring('<a><b x=\"1\"/></a>')[0].get('x'), html.escape('<')",
        "('1', '&lt;')",
    ),
    "a program refused cleanly": (
        "import subprocess\ntry: subprocess.run(['ls'])\nexcept OSError as e: x = 'refused'\nx",
        "'refused'",
    ),
    "importlib": (
        "import importlib, pkgutil, importlib.metadata\nimportlib.import_module('colorsys').rgb_to_hsv(1, 0, 0)",
        "(0.0, 1.0, 1)",
    ),
    "select and selectors": (
        "import selectors, os\ns = selectors.DefaultSelector()\nr, w = os.pipe()\n"
        "s.register(r, selectors.EVENT_READ)\nos.write(w, b'x')\nlen(s.select(1))",
        "1",
    ),
    "a pair of sockets": ("import socket\na, b = socket.socketpair()\na.sendall(b'hi')\nb.recv(9)", "b'hi'"),
}

NUMPY: dict[str, tuple[str, str]] = {
    "linalg": (
        "import numpy as np\na = np.array([[2., 1.], [1., 3.]])\n"
        "np.allclose(a @ np.linalg.inv(a), np.eye(2)), round(float(np.linalg.det(a)), 9), "
        "np.linalg.eigvalsh(a).shape, np.linalg.svd(a)[1].shape, np.linalg.solve(a, [3, 4]).tolist() == [1, "
        "1]",
        "(True, 5.0, (2,), (2,), True)",
    ),
    "large products": ("import numpy as np\na = np.ones((300, 300))\nfloat((a @ a)[0, 0])", "300.0"),
    "fft": ("import numpy as np\nx = np.arange(1024.)\nbool(np.allclose(np.fft.ifft(np.fft.fft(x)).real, x))", "True"),
    "random": (
        "import numpy as np\nr = np.random.default_rng(1)\n"
        "r.integers(0, 9, 3).shape, r.normal(size=5).shape, np.random.rand(2).shape, "
        "len(np.random.permutation(5))",
        "((3,), (5,), (2,), 5)",
    ),
    "polynomials": ("import numpy as np\nnp.allclose(sorted(np.roots([1, -3, 2])), [1, 2])", "True"),
    "masked arrays": (
        "import numpy as np, numpy.ma as ma\nfloat(ma.masked_array([1., 2., 9.], [0, 0, 1]).mean())",
        "1.5",
    ),
    "files": (
        "import numpy as np\nnp.save('a.npy', np.arange(5))\nnp.savetxt('a.txt', [1, 2])\n"
        "int(np.load('a.npy').sum() + np.loadtxt('a.txt').sum())",
        "13",
    ),
    "mapped files": (
        "import numpy as np\nm = np.memmap('m', dtype='f8', mode='w+', shape=9)\nm[:] = 2\nm.flush()\nfloat(m.sum())",
        "18.0",
    ),
    "strings and dates": (
        "import numpy as np\nstr(np.datetime64('2024-02-28') + 2), np.char.upper(np.array(['a'])).tolist()",
        "('2024-03-01', ['A'])",
    ),
    "einsum and sorting": (
        "import numpy as np\n"
        "int(np.einsum('ij,ij->', np.ones((3, 3)), np.ones((3, 3)))), np.unique([3, 1, 3]).tolist()",
        "(9, [1, 3])",
    ),
}

SYMPY: dict[str, tuple[str, str]] = {
    "solve": ("from sympy import *\nx = symbols('x')\nsolve(x**3 - 6 * x**2 + 11 * x - 6, x)", "[1, 2, 3]"),
    "systems": ("from sympy import *\nx, y = symbols('x y')\nsolve([x + y - 3, x - y - 1], [x, y])", "{x: 2, y: 1}"),
    "integrate": (
        "from sympy import *\nx = symbols('x')\n"
        "integrate(x * exp(x), (x, 0, 1)), diff(sin(x) ** 2, x), limit(sin(x) / x, x, 0)",
        "(1, 2*sin(x)*cos(x), 1)",
    ),
    "series and sums": ("from sympy import *\nn = symbols('n')\nsummation(1 / n ** 2, (n, 1, oo))", "pi**2/6"),
    "number theory": (
        "from sympy import *\nfrom sympy.ntheory import *\n"
        "factorint(360), isprime(10**9 + 7), totient(100), n_order(2, 7), discrete_log(41, 15, 7)",
        "({2: 3, 3: 2, 5: 1}, True, 40, 3, 3)",
    ),
    "geometry": (
        "from sympy import *\n"
        "Triangle(Point(0, 0), Point(3, 0), Point(0, 4)).area, Circle(Point(0, 0), 2).circumference",
        "(6, 4*pi)",
    ),
    "matrices": (
        "from sympy import *\nMatrix([[1, 2], [3, 4]]).det(), Matrix([[2, 0], [0, 3]]).eigenvals()",
        "(-2, {2: 1, 3: 1})",
    ),
    "numbers to many places": ("from sympy import *\nN(pi, 50)", "3.1415926535897932384626433832795028841971693993751"),
    "printing": (
        "from sympy import *\nx = symbols('x')\nlatex(sqrt(x) / 2), pretty(x ** 2)",
        "('\\\\frac{\\\\sqrt{x}}{2}', ' 2\\nx ')",
    ),
    "lambdify": ("from sympy import *\nx = symbols('x')\nlambdify(x, x ** 2 + 1)(3)", "10"),
    "differential equations": (
        "from sympy import *\nx = symbols('x')\nf = Function('f')\ndsolve(f(x).diff(x) - f(x), f(x))",
        "Eq(f(x), C1*exp(x))",
    ),
}

MATPLOTLIB: dict[str, tuple[str, str]] = {
    "a picture": (
        "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as p, os\np.plot([1, 2])\n"
        "p.savefig('a.png')\nos.path.getsize('a.png') > 1000",
        "True",
    ),
}
