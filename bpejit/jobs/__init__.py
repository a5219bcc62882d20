"""Jobs: encoding a corpus into token files, so that it can be resumed, divided among machines, and killed at any moment.

The inputs are divided into units (`bpejit.corpus.units`), which contain complete documents. A job encodes its units in order,
and appends ids and document ends to spools, raw files in a hidden folder beside the output. At the end of a unit, a checkpoint
records how long the spools are. When all units are done, the spools become the final files, which appear together.

`file_encoding` is `Tokenizer.encode_files`, with the options of `job_options`. `encode_to_files` plans and runs a job,
`job_run` encodes the units of a part (`unit_loop`, `encode_job`), `spool_sink` divides the documents among spools, `finishing`
joins the parts, `final_files` and `early_files` write token files, and `output_files` gives them their names. `job_manifest`
has what was asked for; `remote_output` and `cluster_encoding` do the same at URLs and on Ray.
"""
