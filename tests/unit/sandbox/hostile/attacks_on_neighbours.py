"""Lines 66 to 70 of the open list: what one run could leave for the next, or find of the trainer."""

from __future__ import annotations

from attack import Attack, S, attack

FIND_TEXT = (
    "import gc\ngc.unfreeze()\nseen, waiting, found = set(), list(gc.get_objects()), []\n"
    "while waiting and len(seen) < 60000:\n    o = waiting.pop()\n    if id(o) in seen: continue\n    seen.add(id(o))\n"
    "    if isinstance(o, (str, bytes)) and len(o) < 999:\n        found.append(o)\n"
    "    elif isinstance(o, dict): waiting += [*o.keys(), *o.values()]\n"
    "    elif isinstance(o, (list, tuple)): waiting += o\n"
)

LEAKS: list[Attack] = [
    attack(
        66,
        "a constant replaced",
        S.OK,
        "import math\nmath.pi = 3",
        after=("import math\nprint(math.pi > 3.1)", "True\n"),
    ),
    attack(
        66,
        "a function replaced",
        S.OK,
        "import json\njson.dumps = None",
        after=("import json\nprint(json.dumps([1]))", "[1]\n"),
    ),
    attack(66, "print replaced", S.OK, "import builtins\nbuiltins.print = None", after=("print(1)", "1\n")),
    attack(
        66,
        "a module forged",
        S.OK,
        "import sys\nsys.modules['math'] = sys.modules['json'] = None",
        after=("import math, json\nprint(1)", "1\n"),
    ),
    attack(
        66,
        "a search path changed",
        S.OK,
        "import sys\nopen('fractions.py', 'w').write('x = 1/0')\nsys.path.insert(0, '.')",
        after=("import sys, os\nprint('.' in sys.path, os.listdir('.'))", "False []\n"),
    ),
    attack(
        66,
        "a word in the environment",
        S.OK,
        "import os\nos.environ['MINE'] = '1'\nos.putenv('MINE', '1')",
        after=("import os\nprint('MINE' in os.environ)", "False\n"),
    ),
    attack(
        66,
        "a file in its folder",
        S.OK,
        "open('mine', 'w').write('x')",
        after=("import os\nprint(os.listdir('.'))", "[]\n"),
    ),
    attack(
        66,
        "a limit lowered",
        {S.OK, S.EXCEPTION},
        "import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (5, 5))",
        after=("import os\nprint(len([os.dup(0) for _ in range(20)]))", "20\n"),
    ),
    attack(
        67,
        "seeds set",
        S.OK,
        "import random\nrandom.seed(1)",
        after=("import random\na = random.random()\nrandom.seed(1)\nprint(a == random.random())", "False\n"),
    ),
    attack(
        68,
        "the environment",
        S.OK,
        "import os\nprint('AGENTMATH_CANARY' in os.environ, 'HOME' in os.environ, len(os.environ) < 30)",
        stdout="False True True\n",
    ),
    attack(
        68, "the environment in memory", S.OK, "import ctypes\nctypes.CDLL(None).getenv(b'AGENTMATH_CANARY')", value="0"
    ),
    attack(
        69,
        "descriptors",
        S.OK,
        "import os\nfound = []\nfor i in range(1024):\n    try: os.fstat(i)\n    except OSError: pass\n"
        "    else: found.append(i)\nfound",
        value=r"\[0, 1, 2, 3\]",
    ),
    attack(
        69,
        "flags of descriptors",
        S.OK,
        "import os, stat\n[stat.S_ISREG(os.fstat(i).st_mode) or stat.S_ISDIR(os.fstat(i).st_mode) for i in range(4)]",
        value=r"\[False, False, False, False\]",
    ),
    attack(
        70,
        "the trainer's secret among all objects",
        S.OK,
        FIND_TEXT + "print(*[o for o in found if 'cana' 'ry-' in str(o)])\nlen(found) > 100",
        value="True",
        limits={"output_bytes": 64 << 10},
    ),
    attack(
        70,
        "another's code in memory",
        S.OK,
        "canary = 'zanzi' + 'bar-17'\nNone",
        after=(
            FIND_TEXT + "print(any('zanzi' + 'bar-17' in str(o) for o in found if 'FIND' not in str(o)))",
            "False\n",
        ),
    ),
    attack(
        70,
        "the frames above it",
        S.OK,
        "import sys\nf, names = sys._getframe(), []\nwhile f:\n"
        "    names += [n for n, v in f.f_locals.items() if 'cana' 'ry-' in str(v)[:99999]]\n"
        "    f = f.f_back\nnames",
        value=r"\[\]",
    ),
    attack(0, "the command line", S.OK, "import sys\nsys.orig_argv, sys.argv", value=".*", says=""),
    attack(
        0, "names of the machine", S.OK, "import os\nos.uname().nodename", value="'sandbox'", guards="uts_namespace"
    ),
    attack(
        0,
        "the home folder's name",
        S.OK,
        "import os\n"
        "os.path.expanduser('~') in ('.', '/', os.getcwd()) or not "
        "os.path.expanduser('~').startswith('@HOME@')",
        value="True",
    ),
]

ATTACKS: list[Attack] = LEAKS
