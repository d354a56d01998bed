"""Faults in objectives, in the training loop and what it saves, and in the batches that it reads."""

from tests.mutants.row import Mutant

LOOP = "qkv/train/loop.py"
PRECISION = "qkv/train/precision.py"
SMOOTHED = "tests/objectives/test_smoothed.py"
SEQ2SEQ = "tests/objectives/test_seq2seq.py"
ENDS = "tests/train/test_loop.py"
RESUME = "tests/train/test_resume.py"

TRAINING = [
    Mutant(
        "smoothing dropped",
        "qkv/objectives/smoothed.py",
        "smoothing * (log_z - mean_logit)",
        "smoothing * nll",
        SMOOTHED,
    ),
    Mutant(
        "smoothing learned from padding",
        "qkv/objectives/smoothed.py",
        "h_nd * seen.to(hidden.dtype)",
        "h_nd",
        SMOOTHED,
    ),
    Mutant(
        "padding learned from",
        "qkv/objectives/smoothed.py",
        "p_nv.mul_(real[:, None])",
        "p_nv",
        SMOOTHED,
    ),
    Mutant(
        "scoring makes gradients",
        "qkv/objectives/smoothed.py",
        "learns = torch.is_grad_enabled() and any(",
        "learns = any(",
        SMOOTHED,
    ),
    Mutant(
        "the plain loss can be learned from",
        "qkv/objectives/smoothed.py",
        "        ctx.mark_non_differentiable(plain)\n",
        "",
        SMOOTHED,
    ),
    Mutant(
        "divided by the part instead of the step",
        "qkv/objectives/seq2seq.py",
        'tokens = divisors["target_tokens"]',
        'tokens = batch.counts["target_tokens"]',
        SEQ2SEQ,
    ),
    Mutant(
        "auxiliary losses not shared out",
        "qkv/objectives/seq2seq.py",
        'share = batch.rows / divisors["sentences"]',
        "share = 1.0",
        SEQ2SEQ,
    ),
    Mutant(
        "the first token of the next document predicted",
        "qkv/objectives/seq2seq.py",
        "(target.segments[:, 1:] == target.segments[:, :-1]) & (target.segments[:, 1:] > 0)",
        "target.segments[:, 1:] > 0",
        SEQ2SEQ,
    ),
    Mutant(
        "noise of the same step every time",
        LOOP,
        "Noise(settings.seed, number, there.samples)",
        "Noise(settings.seed, settings.seed, there.samples)",
        "tests/train/test_noise.py",
    ),
    Mutant(
        "noise starts anew on resume",
        LOOP,
        "self.at = Progress(**saved.state",
        "self.at = self.at or Progress(**saved.state",
        RESUME,
    ),
    Mutant("optimizer state not restored", LOOP, "            if own:\n", "            if own and not own:\n", RESUME),
    Mutant(
        "position not restored",
        LOOP,
        "Position(at.epoch, at.batch), settings.seed) as feed",
        "Position(at.epoch, 0), settings.seed) as feed",
        RESUME,
    ),
    Mutant(
        "moving average not restored",
        LOOP,
        'saved.tensors["ema"].items()}',
        "self.moving.tensors.items()}",
        RESUME,
    ),
    Mutant(
        "random state not restored",
        LOOP,
        'torch.set_rng_state(saved.tensors["random"]["torch"])',
        "torch.manual_seed(0)",
        RESUME,
    ),
    Mutant(
        "only the last part learned from",
        PRECISION,
        "master.grad += parameter.grad",
        "master.grad = parameter.grad.float()",
        "tests/train/test_precision.py",
    ),
    Mutant("norms narrowed", PRECISION, 'getattr(m, "keep_fp32", False)', "False", "tests/train/test_precision.py"),
    Mutant(
        "the model computes with old weights",
        PRECISION,
        "        if self._pairs:\n",
        "        if not self._pairs:\n",
        "tests/train/test_precision.py",
    ),
    Mutant(
        "mean over the wrong count",
        "qkv/train/average.py",
        "(total / count).to",
        "(total / (count + 1)).to",
        "tests/train/test_average.py",
    ),
    Mutant(
        "the moving average runs backwards",
        "qkv/train/average.py",
        "weight = 1 - min(self.decay, (1 + step) / (10 + step))",
        "weight = min(self.decay, (1 + step) / (10 + step))",
        "tests/train/test_average.py",
    ),
    Mutant(
        "warm-up a step late",
        "qkv/train/schedule.py",
        "min(step**-0.5, step * self.warmup**-1.5)",
        "min(step**-0.5, (step - 1) * self.warmup**-1.5)",
        "tests/train/test_schedule.py",
    ),
    Mutant("diverged weights saved", LOOP, "if not all(torch.isfinite", "if False and all(torch.isfinite", ENDS),
    Mutant(
        "diverged losses saved",
        LOOP,
        "                    self._report(journal, feed)  # which refuses to go on from a loss that is no number\n",
        "",
        ENDS,
    ),
    Mutant("patience never ends", LOOP, "        at.since_best += 1\n", "", ENDS),
    Mutant("the best is the last", LOOP, "        better = verdict.beats(at.best)\n", "        better = True\n", ENDS),
    Mutant("snapshots of a lost future kept", LOOP, "self.snapshots.forget_after(saved.step)", "pass", RESUME),
    Mutant(
        "another text goes on unseen",
        "qkv/train/run.py",
        "        _check_same_text(data, folder)\n",
        "",
        RESUME,
    ),
    Mutant(
        "an epoch's end repeats it",
        "qkv/data/sampling.py",
        "if index + 1 < len(plan) else Position(epoch + 1, 0)",
        "if index + 1 < len(plan) else Position(epoch, 0)",
        "tests/data/test_sampling.py",
    ),
    Mutant(
        "the same order every epoch",
        "qkv/data/sampling.py",
        'self.generator("corpus", corpus, cycle)',
        'self.generator("corpus", corpus, 0)',
        "tests/data/test_sampling.py",
    ),
    Mutant(
        "batches beyond the limit",
        "qkv/data/sampling.py",
        "fits = window * numbers[: len(window)] <= max_tokens",
        "fits = window * numbers[: len(window)] <= 2 * max_tokens",
        "tests/data/test_sampling.py",
    ),
    Mutant(
        "a row without its end",
        "qkv/data/collate.py",
        "ids[np.arange(rows), sizes + first] = Specials.EOS",
        "ids[np.arange(rows), sizes + first] = Specials.PAD",
        "tests/data/test_collate.py",
    ),
    Mutant(
        "BPE dropout the same every epoch",
        "qkv/data/collate.py",
        "word(self.seed, epoch, place_of(side))",
        "word(self.seed, place_of(side))",
        "tests/data/test_collate.py",
    ),
]
