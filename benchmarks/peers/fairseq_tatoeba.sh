#!/usr/bin/env bash
# What fairseq 0.12.2 reaches on Tatoeba, German to English, in a given number of minutes on a CPU: raw text in, raw text out.
#
#   fairseq_tatoeba.sh DATA OUT THREADS LAYERS WIDTH FF HEADS MINUTES SEED        (LAYERS of the encoder and of the decoder each)
#
# Cased text, Moses tokenisation (sacremoses), joint BPE of 10k merges, one shared dictionary and embedding; label smoothing
# .1, Adam (.9, .98), weight decay 1e-4, 4,096 tokens a batch, inverse square root. Training ends after MINUTES of its own
# wall time, validation included. The checkpoint with the lowest validation loss translates (beam 5), is detokenised and
# scored by sacreBLEU (13a) and chrF2 against the raw references. Detokenising the tokenised references gives BLEU 99.95.
# A short run needs its own step size: LR, WARMUP and DROPOUT in the environment, by default .0007, 1,000 steps and .1.
#
# DATA holds {train,dev,test}.de-en.tsv.gz, a German sentence, a tab and its English on each line; train and choose on dev,
# test is read once. fairseq-*, subword-nmt, sacremoses and sacrebleu are on PATH. Standard output is one line of JSON; logs
# and models go to OUT: train.log as it goes, valid_nll.tsv (update, validation NLL in bits a token) at the end.
# A second call with the same OUT resumes; the minutes already spent count.
set -euo pipefail

if [ $# -ne 9 ]; then sed -n 's/^#   //p' "$0" >&2; exit 2; fi
data=$1 out=$2 threads=$3 layers=$4 width=$5 ff=$6 heads=$7 minutes=$8 seed=$9
rate=${LR:-0.0007} warmup=${WARMUP:-1000} dropout=${DROPOUT:-0.1}
export OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads PYTHONWARNINGS=ignore
text=$out/text bin=$out/bin models=$out/models
mkdir -p "$text" "$models"

if [ ! -f "$bin/done" ]; then
  for split in train dev test; do
    gunzip -c "$data/$split.de-en.tsv.gz" | cut -f 1 > "$text/$split.de"
    gunzip -c "$data/$split.de-en.tsv.gz" | cut -f 2 > "$text/$split.en"
    for lang in de en; do sacremoses -l "$lang" -q tokenize < "$text/$split.$lang" > "$text/tok.$split.$lang"; done
  done
  cat "$text/tok.train.de" "$text/tok.train.en" | subword-nmt learn-bpe -s 10000 > "$text/codes" 2> "$out/preprocess.log"
  for split in train dev test; do
    for lang in de en; do subword-nmt apply-bpe -c "$text/codes" < "$text/tok.$split.$lang" > "$text/bpe.$split.$lang"; done
  done
  fairseq-preprocess --source-lang de --target-lang en --joined-dictionary --workers 1 --destdir "$bin" \
    --trainpref "$text/bpe.train" --validpref "$text/bpe.dev" --testpref "$text/bpe.test" >> "$out/preprocess.log" 2>&1
  touch "$bin/done"
fi

fairseq-train "$bin" --task translation --source-lang de --target-lang en --cpu --seed "$seed" --num-workers 0 \
  --arch transformer --share-all-embeddings --dropout "$dropout" \
  --encoder-layers "$layers" --encoder-embed-dim "$width" --encoder-ffn-embed-dim "$ff" --encoder-attention-heads "$heads" \
  --decoder-layers "$layers" --decoder-embed-dim "$width" --decoder-ffn-embed-dim "$ff" --decoder-attention-heads "$heads" \
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
  --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.0001 \
  --lr "$rate" --lr-scheduler inverse_sqrt --warmup-updates "$warmup" --warmup-init-lr 1e-7 \
  --max-tokens 4096 --max-epoch 1000 --stop-time-hours "$(awk "BEGIN {print $minutes / 60}")" \
  --save-interval-updates 200 --keep-interval-updates 1 --no-epoch-checkpoints --save-dir "$models" \
  --no-progress-bar --log-format simple --log-interval 50 >> "$out/train.log" 2>&1

sed -nE 's/.*\| valid \| epoch .*\| nll_loss ([0-9.]+) .*\| num_updates ([0-9]+).*/\2\t\1/p' "$out/train.log" > "$out/valid_nll.tsv"
updates=$(tail -n 1 "$out/valid_nll.tsv" | cut -f 1)
nll=$(cut -f 2 "$out/valid_nll.tsv" | sort -g | head -n 1)

translate() { # fairseq's name for the split, ours
  fairseq-generate "$bin" --path "$models/checkpoint_best.pt" --gen-subset "$1" --source-lang de --target-lang en --cpu \
    --beam 5 --max-tokens 4096 --remove-bpe --num-workers 0 > "$out/generate.$2.log" 2>&1
  grep '^H-' "$out/generate.$2.log" | sed 's/^H-//' | sort -n | cut -f 3 | sacremoses -l en -q detokenize > "$out/hypothesis.$2.en"
}
score() { sacrebleu "$text/$1.en" -i "$out/hypothesis.$1.en" -m "$2" -b -w 2; }
translate valid dev
translate test test
printf '{"peer": "fairseq 0.12.2", "task": "tatoeba", "direction": "de-en", "seed": %d, "threads": %d, "layers": %d, "width": %d, "ff": %d, "heads": %d, "minutes": %s, "updates": %d, "valid_nll_best": %s, "bleu_dev": %s, "chrf_dev": %s, "bleu_test": %s, "chrf_test": %s}\n' \
  "$seed" "$threads" "$layers" "$width" "$ff" "$heads" "$minutes" "$updates" "$nll" \
  "$(score dev bleu)" "$(score dev chrf)" "$(score test bleu)" "$(score test chrf)"
