#!/usr/bin/env bash
# fairseq 0.12.2 in an environment of its own, mended so that it installs and imports on Python 3.11 beside torch 2.13.
#
#   setup_fairseq.sh FOLDER        then: PATH="FOLDER/bin:$PATH" fairseq_multi30k.sh ...
#
# Three things have rotted: a source file that its setup.py asks for is not in the package, so those C++ extensions (none of
# them used by translation) are left out; a mutable default that Python 3.11 refuses, so dataclasses are told to allow it; and
# names of numpy that are gone. Generation needs torch.load with weights_only=False, and the module's fast path off.
set -euo pipefail

if [ $# -ne 1 ]; then sed -n 's/^#   //p' "$0" >&2; exit 2; fi
folder=$1
[ -x "$folder/bin/fairseq-train" ] && exit 0
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet torch==2.13.0 'numpy<2' cython wheel
work=$(mktemp -d)
"$folder/bin/pip" download --quiet --no-deps --no-binary :all: --no-build-isolation --dest "$work" fairseq==0.12.2
tar -C "$work" -xf "$work"/fairseq-0.12.2.tar.gz
"$folder/bin/python" - "$work/fairseq-0.12.2" <<'PYTHON'
import re
import sys
from pathlib import Path

top = Path(sys.argv[1])
setup = top / "setup.py"
text = setup.read_text()
first = text.index("try:\n    # torch is not available")
last = text.index("except ImportError", first)
setup.write_text(text[:first] + "try:\n    import torch.utils.cpp_extension as cpp_extension\n" + text[last:])
loading = top / "fairseq" / "checkpoint_utils.py"
loading.write_text(loading.read_text().replace('map_location=torch.device("cpu"))', 'map_location=torch.device("cpu"), weights_only=False)'))
for name in ("transformer_encoder.py", "transformer_layer.py"):
    for path in top.rglob(name):
        path.write_text(re.sub(r"(self\.)?BT_version = True", r"\1BT_version = False", path.read_text()))
PYTHON
"$folder/bin/pip" install --quiet --no-build-isolation "$work/fairseq-0.12.2" subword-nmt sacrebleu sacremoses
cat > "$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/sitecustomize.py" <<'PYTHON'
import dataclasses
import inspect

# Python 3.11 refuses defaults that cannot be hashed, which fairseq's own dataclasses have.
source = inspect.getsource(dataclasses._get_field)
exec(source.replace("f.default.__class__.__hash__ is None", "False"), dataclasses.__dict__)
try:
    import numpy

    for name, kind in {"float": float, "int": int, "bool": bool, "object": object}.items():
        if name not in numpy.__dict__:
            setattr(numpy, name, kind)
except ImportError:
    pass
PYTHON
rm -rf "$work"
"$folder/bin/fairseq-train" --help > /dev/null 2>&1 && echo "fairseq 0.12.2 is ready in $folder" >&2
