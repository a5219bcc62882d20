"""Training: learn merges from the counts of pre-tokens (`bpejit.counting`), and save tokenizers.

`train` is the entry, with the options of `train_options`, `model_learning` makes a model of counts, `merge_learner` learns
merges. `corpus_tokens` has the numbers of tokens of several sizes, and `tracing` learns merges in plain Python, step by step.
"""
