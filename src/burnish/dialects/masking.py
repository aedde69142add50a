"""Hides secrets in a config that is about to be shown. Works on the text, so that comments and order stay."""

import re
from collections.abc import Iterator

MASK = "***"

_WORD = r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIAL|AUTH)S?"
_SMELLS = re.compile(rf".*{_WORD}", re.IGNORECASE)
# DB_PASS_MAIN smells in the middle too, but only as a variable is written, so that
# fused_lm_head_token_chunk_size stays readable.
_SMELLS_WITHIN = re.compile(rf"[^a-z]*{_WORD}(?![A-Z])[^a-z]*")

# Every quantifier that may meet hostile text is possessive or bounded, so that masking takes time in its length.
_KEY = re.compile(
    r"""
    (?P<key> "(?:\\.|[^"\\\n]){0,200}+" | '[^'\n]*+' | (?<![A-Za-z0-9_-])[A-Za-z0-9_-]++ )
    [ \t]*+ = [ \t]*+
    """,
    re.VERBOSE | re.DOTALL,
)
_SCALAR = re.compile(
    r"""
    \"{3} (?:\\.|[^\\])*? \"{3,5}
  | '{3} .*? '{3,5}
  | " (?:\\.|[^"\\\n])*+ "
  | ' [^'\n]*+ '
  | ["'] [^\n]*+
  | [^\s,#\[\]{}] [^\s,#\]}]*+
    """,
    re.VERBOSE | re.DOTALL,
)
_LIST_OR_TABLE = re.compile(r"\[ [^\]]*+ \]? | \{ [^}\n]*+ \}?", re.VERBOSE)
_LONGEST_KEY = 200
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/@:\"']*):([^\s/\"']+)@")
_URL_TOKEN_USER = re.compile(r"(?<=://)([^\s/@:\"']+)@")
_URL_QUERY = re.compile(rf"([?&][A-Za-z0-9_.-]*{_WORD}=)[^&\s\"']+", re.IGNORECASE)
_WELL_KNOWN = re.compile(r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA)[A-Za-z0-9_-]{8,}")


def mask_secrets(text: str) -> str:
    """The text with `***` for the value of every key that smells of a secret, and for credentials inside URLs.

    TOML stays TOML and every other value stays what it was. Works on text that no parser can read, too.
    """
    return _mask_loose("".join(_mask_values(text)))


def smells_of_secret(key: str) -> bool:
    bare = key.strip("\"'")
    if len(bare) > _LONGEST_KEY:
        return True  # no key of anyone's is as long; what it holds is better not shown
    return bool(_SMELLS.fullmatch(bare) or _SMELLS_WITHIN.fullmatch(bare))


def _mask_values(text: str) -> Iterator[str]:
    """The text in pieces, each secret value replaced. A list or table under another key is looked into."""
    done = 0
    while match := _KEY.search(text, done):
        yield text[done : match.end()]
        done = match.end()
        secret = smells_of_secret(match["key"])
        value = _SCALAR.match(text, done) or (_LIST_OR_TABLE.match(text, done) if secret else None)
        if value is None:
            continue
        yield f'"{MASK}"' if secret else value[0]
        done = value.end()
    yield text[done:]


def _mask_loose(text: str) -> str:
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _URL_TOKEN_USER.sub(_mask_lone_user, text)
    text = _URL_QUERY.sub(rf"\1{MASK}", text)
    return _WELL_KNOWN.sub(MASK, text)


def _mask_lone_user(match: re.Match[str]) -> str:
    """`https://ghp_abc@host` hides a token in the user's place; `ssh://git@host` does not."""
    user = match[1]
    return match[0] if len(user) < 12 else f"{MASK}@"
