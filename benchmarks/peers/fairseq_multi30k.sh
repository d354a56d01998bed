#!/usr/bin/env bash
# What fairseq 0.12.2 reaches on Multi30k: BLEU of a Transformer-Tiny, and the seconds it takes on a CPU.
#
#   fairseq_multi30k.sh SRC TGT DATA OUT THREADS EPOCHS SEED        (SRC and TGT: de en, or en de)
#
# The recipe is that of Wu et al. 2021 (arXiv 2105.14462): 4+4 layers, d=128, ff=256, 4 heads, all embeddings shared,
# joint BPE of 10k merges, dropout .3, label smoothing .1, Adam (.9, .98), lr .005 (inverse square root, 2,000 warmup),
# 4,096 tokens a batch, patience 10, mean of the last 10 epochs, beam 5. They report BLEU 41.02 (en-de, test2016), scored
# as here on lower-cased tokenised text without further tokenisation.
#
# DATA holds tok.{train,val,test_2016_flickr}.{de,en}.gz. fairseq-*, subword-nmt, sacrebleu and their python are on PATH.
# Standard output is one line of JSON; logs and models go to OUT: train.log as it goes, valid_nll.tsv (epoch, validation
# NLL in bits a token) at the end. A second call with the same OUT resumes. "seconds" is the training steps' time over the
# whole epochs, without validation and start-up.
# GPU=1 in the environment trains and translates on the GPU that PyTorch sees, instead of the CPU.
# HOURS in the environment ends training earlier; only whole epochs are averaged and counted.
set -euo pipefail

if [ $# -ne 7 ]; then sed -n 's/^#   //p' "$0" >&2; exit 2; fi
src=$1 tgt=$2 data=$3 out=$4 threads=$5 epochs=$6 seed=$7
here=$(cd "$(dirname "$0")" && pwd)
export OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads PYTHONWARNINGS=ignore
text=$out/text bin=$out/bin models=$out/models
mkdir -p "$text" "$models"
device=(--cpu); [ -n "${GPU:-}" ] && device=()

if [ ! -f "$bin/done" ]; then
  for split in train val test_2016_flickr; do
    for lang in "$src" "$tgt"; do gunzip -c "$data/tok.$split.$lang.gz" > "$text/$split.$lang"; done
  done
  cat "$text/train.$src" "$text/train.$tgt" | subword-nmt learn-bpe -s 10000 > "$text/codes" 2> "$out/preprocess.log"
  for split in train val test_2016_flickr; do
    for lang in "$src" "$tgt"; do subword-nmt apply-bpe -c "$text/codes" < "$text/$split.$lang" > "$text/bpe.$split.$lang"; done
  done
  fairseq-preprocess --source-lang "$src" --target-lang "$tgt" --joined-dictionary --workers 1 --destdir "$bin" \
    --trainpref "$text/bpe.train" --validpref "$text/bpe.val" --testpref "$text/bpe.test_2016_flickr" >> "$out/preprocess.log" 2>&1
  touch "$bin/done"
fi

fairseq-train "$bin" --task translation --source-lang "$src" --target-lang "$tgt" "${device[@]}" --seed "$seed" --num-workers 0 \
  --arch transformer --share-all-embeddings --dropout 0.3 \
  --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4 \
  --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4 \
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
  --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.005 --lr-scheduler inverse_sqrt --warmup-updates 2000 --warmup-init-lr 1e-7 \
  --max-tokens 4096 --max-epoch "$epochs" --stop-time-hours "${HOURS:-0}" --patience 10 --keep-last-epochs 10 --save-dir "$models" \
  --no-progress-bar --log-format simple --log-interval 50 >> "$out/train.log" 2>&1

ran=$(ls "$models" | sed -nE 's/^checkpoint([0-9]+)\.pt$/\1/p' | sort -n | tail -n 1)
by_epoch() { # the split's name in fairseq's log, the figure: epoch and figure of every whole epoch
  sed -nE "s/.*\\| $1 \\| epoch +0*([0-9]+) .*\\| $2 ([0-9.]+).*/\\1\\t\\2/p" "$out/train.log" |
    awk -v ran="$ran" '$1 <= ran {figure[$1] = $2} END {for (epoch = 1; epoch <= ran; epoch++) print epoch "\t" figure[epoch]}'
}
by_epoch valid nll_loss > "$out/valid_nll.tsv"
nll=$(tail -n 1 "$out/valid_nll.tsv" | cut -f 2)
seconds=$(by_epoch train train_wall | awk '{sum += $2} END {print sum}')

python "$here/average_fairseq.py" "$models" 10 "$out/average.pt"

bleu() { # fairseq's name for the split, ours: translate, undo BPE, score against the tokenised reference
  fairseq-generate "$bin" --path "$out/average.pt" --gen-subset "$1" --source-lang "$src" --target-lang "$tgt" "${device[@]}" \
    --beam 5 --max-tokens 4096 --remove-bpe --num-workers 0 > "$out/generate.$2.log" 2>&1
  grep '^H-' "$out/generate.$2.log" | sed 's/^H-//' | sort -n | cut -f 3 > "$out/hypothesis.$2.$tgt"
  sacrebleu "$text/$2.$tgt" -i "$out/hypothesis.$2.$tgt" -m bleu --tokenize none -b -w 2
}
val=$(bleu valid val)
test=$(bleu test test_2016_flickr)
printf '{"peer": "fairseq 0.12.2", "task": "multi30k", "direction": "%s-%s", "seed": %d, "threads": %d, "epochs": %d, "seconds": %d, "valid_nll_last": %s, "valid_nll_by_epoch": "%s", "bleu_val": %s, "bleu_test_2016_flickr": %s}\n' \
  "$src" "$tgt" "$seed" "$threads" "$ran" "$seconds" "$nll" "valid_nll.tsv" "$val" "$test"
