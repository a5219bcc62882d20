"""bpejit beside other tokenizers, on the same text, in fresh processes: `python -m benchmarks.compare`.

- `__main__` reads the options and runs the works in order;
- `corpora` and `vocabularies` make the inputs, `tools` wraps each tokenizer in one file;
- `work_*` say what is measured; each measurement is a job of `worker`, a process of its own, started by `processes`;
- `results` keeps what was measured as JSON lines, `report` turns them into tables and plots.
"""
