"""Hides secrets in a config that is about to be shown. Works on the text, so that comments and order stay."""

import re

MASK = "***"

_WORD = r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIAL|AUTH)S?"
_SMELLS = re.compile(rf".*{_WORD}", re.IGNORECASE)
# DB_PASS_MAIN smells in the middle too, but only as a variable is written, so that
# fused_lm_head_token_chunk_size stays readable.
_SMELLS_WITHIN = re.compile(rf"[^a-z]*{_WORD}(?![A-Z])[^a-z]*")

_ASSIGNMENT = re.compile(
    r"""
    (?P<key> "(?:\\.|[^"\\\n])*" | '[^'\n]*' | [A-Za-z0-9_-]+ )
    (?P<equals> [ \t]*=[ \t]* )
    (?P<value>
        \"{3} (?:\\.|[^\\])*? \"{3,5}
      | '{3} .*? '{3,5}
      | " (?:\\.|[^"\\\n])* "
      | ' [^'\n]* '
      | \[ [^\]]* \]
      | \{ [^}\n]* \}
      | ["'] [^\n]*
      | [^\s,#\]}]+
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/@:\"']*):([^\s/\"']+)@")
_URL_TOKEN_USER = re.compile(r"(?<=://)([^\s/@:\"']+)@")
_URL_QUERY = re.compile(rf"([?&][A-Za-z0-9_.-]*{_WORD}=)[^&\s\"']+", re.IGNORECASE)
_WELL_KNOWN = re.compile(r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA)[A-Za-z0-9_-]{8,}")


def mask_secrets(text: str) -> str:
    """The text with `***` for the value of every key that smells of a secret, and for credentials inside URLs.

    TOML stays TOML and every other value stays what it was. Works on text that no parser can read, too.
    """
    return _mask_loose(_ASSIGNMENT.sub(_mask_assignment, text))


def smells_of_secret(key: str) -> bool:
    bare = key.strip("\"'")
    return bool(_SMELLS.fullmatch(bare) or _SMELLS_WITHIN.fullmatch(bare))


def _mask_assignment(match: re.Match[str]) -> str:
    if not smells_of_secret(match["key"]):
        # An inline table may hold a secret of its own: env_vars = { HF_TOKEN = "..." }
        if match["value"][0] in "{[":
            inner = _ASSIGNMENT.sub(_mask_assignment, match["value"][1:])
            return match["key"] + match["equals"] + match["value"][0] + inner
        return match[0]
    return f'{match["key"]}{match["equals"]}"{MASK}"'


def _mask_loose(text: str) -> str:
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _URL_TOKEN_USER.sub(_mask_lone_user, text)
    text = _URL_QUERY.sub(rf"\1{MASK}", text)
    return _WELL_KNOWN.sub(MASK, text)


def _mask_lone_user(match: re.Match[str]) -> str:
    """`https://ghp_abc@host` hides a token in the user's place; `ssh://git@host` does not."""
    user = match[1]
    return match[0] if len(user) < 12 else f"{MASK}@"
