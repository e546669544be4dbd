"""Training: continual pre-training and supervised fine-tuning of a world model, as adapters of a base.

`cpt.py` and `sft.py` are read from top to bottom. Both go settings → rows → batches → loop: `examples` turns files into
rows of token ids with masks, `batches` turns rows into steps, `loss` is what a step lowers, `loop` takes the steps and
tells of them in events, `checkpoint` is what a run stops and goes on with.

The modules need torch, transformers, peft and accelerate: `pip install 'worldlm[train]'`.
"""
