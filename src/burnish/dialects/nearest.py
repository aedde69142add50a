"""The key that someone meant. Knows what other trainers call things."""

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

_ELSEWHERE = {
    "optim.lr": "learning_rate learningrate learning_rate_init peak_lr",
    "optim.max_norm": "max_grad_norm grad_clip clip_grad clip_norm gradient_clipping gradient_clip_val",
    "optim.betas1": "adam_beta1 beta1",
    "optim.betas2": "adam_beta2 beta2",
    "optim": "optimizer hyperparameters",
    "scheduler": "lr_scheduler schedule lr_schedule",
    "scheduler.type": "lr_scheduler_type scheduler_type",
    "scheduler.warmup_steps": "warmup warmup_ratio num_warmup_steps lr_warmup_steps",
    "scheduler.min_lr": "lr_min lr_end minimum_lr",
    "data": "dataset datasets",
    "data.name": "dataset_name data_path dataset_path train_file training_file train_path",
    "data.seq_len": "seq_length sequence_length sequence_len max_seq_len max_seq_length max_length context_length",
    "data.batch_size": "gradient_accumulation_steps global_batch global_batch_size train_batch_size",
    "data.micro_batch_size": "per_device_batch per_device_batch_size per_device_train_batch_size micro_batch",
    "data.loss_mask": "loss train_on_inputs assistant_only_loss completion_only_loss learn_from",
    "data.pack": "packing sample_packing",
    "model": "policy",
    "model.name": "model_name base_model model_name_or_path model_id",
    "model.lora": "lora peft use_lora use_peft",
    "model.lora.rank": "r lora_r lora_rank",
    "model.lora.alpha": "lora_alpha",
    "model.lora.dropout": "lora_dropout",
    "model.lora.target_modules": "lora_target_modules lora_target lora_targets lora_modules",
    "model.lora.use_rslora": "rslora lora_use_rslora",
    "model.lora.use_dora": "dora peft_use_dora lora_use_dora",
    "model.lora.quantize": "qlora use_qlora load_in_4bit load_in_8bit bnb_4bit_quant_type",
    "ckpt": "checkpoint checkpoints checkpointing",
    "ckpt.interval": "save_steps save_interval save_every checkpoint_interval",
    "ckpt.keep_last": "save_total_limit max_checkpoints",
    "ckpt.keep_best": "save_best load_best_model_at_end",
    "ckpt.metric": "metric_for_best_model",
    "val.patience": "early_stopping early_stopping_patience",
    "val.min_delta": "early_stopping_threshold",
    "resume": "resume_from resume_from_checkpoint",
    "renderer.name": "chat_format template",
    "max_steps": "total_steps steps num_steps train_steps n_steps",
    "epochs": "num_train_epochs num_epochs",
    "seed": "random_seed",
    "deployment": "compute",
    "deployment.num_train_gpus": "gpus n_gpus gpu_count devices",
    "deployment.num_train_nodes": "nodes n_nodes",
    "env_vars": "env environment",
}
_BY_SYNONYM = {word: key for key, words in _ELSEWHERE.items() for word in words.split()}

_ALIKE = 0.72
_ALIKE_AT_HOME = 0.6
_LONGEST = 60


def nearest_key(path: Sequence[str], known: Collection[str]) -> str | None:
    """The known dotted key that `path` most likely stands for, over the whole schema; None where none is near.

    A neighbour in the same section needs to look less alike than a key elsewhere.
    """
    *parents, leaf = (part.lower().replace("-", "_") for part in path)
    if len(leaf) > _LONGEST:
        return None
    synonym = _BY_SYNONYM.get(leaf)
    if synonym in known:
        return synonym
    parent = ".".join(parents)
    # difflib remembers its second sequence, so the leaf goes there and the keys pass by.
    matcher = SequenceMatcher(None, "", leaf)
    best, nearest = 0.0, None
    for key in known:
        likeness = _likeness(matcher, parent, key)
        if likeness > best:
            best, nearest = likeness, key
    return nearest


def _likeness(matcher: SequenceMatcher[str], parent: str, key: str) -> float:
    key_parent, _, key_leaf = key.rpartition(".")
    at_home = key_parent == parent
    least = _ALIKE_AT_HOME if at_home else _ALIKE
    matcher.set_seq1(key_leaf)
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    ratio = matcher.ratio()
    return ratio + (0.15 if at_home else 0.0) if ratio >= least else 0.0
