"""Where no GPU is, Triton's kernels run in its interpreter; that has to be said before triton is imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
