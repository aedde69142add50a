"""What is taken for a secret or for personal data, what is not, and that none of it is told in full."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.data.private_text import cover_private, find_private

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "AKIAIOSFODNN7EXAMPLE": "AWS key",
    "ghp_" + "aB3x" * 9: "GitHub token",
    "github_pat_" + "11ABCDE0Y0" * 5: "GitHub token",
    "hf_AbCdEfGhIjKlMnOpQrStUvWx": "Hugging Face token",
    "sk-proj-Abc123Def456Ghi789Jkl012": "OpenAI or Anthropic key",
    "xoxb-" + "123456789012-abcdefGHIJ": "Slack token",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3In0.dozjgNryP4J3jVmNHl0w": "JSON web token",
    PEM: "private key",
}
PERSONAL = {
    "jane.doe+x@mail.example.com": "e-mail address",
    "DE89 3704 0044 0532 0130 00": "IBAN",
    "GB82WEST12345698765432": "IBAN",
    "4242 4242 4242 4242": "card number",
    "5555555555554444": "card number",
    "078-05-1120": "US social security number",
    "203.0.113.7": "IP address",
    "+49 30 1234567": "phone number",
    "(555) 123-4567": "phone number",
}
NEITHER = [
    "DE89 3704 0044 0532 0130 01",  # its sum is wrong
    "4242 4242 4242 4243",
    "1111111111111",
    "000-12-3456",
    "127.0.0.1 and 192.168.1.10",
    "sk-learn-is-a-good-library-for-machines",
    "token = the_quick_brown_fox_jumps_over",
    "key: value, password: hunter2",
    "2024-05-06 12:30:00",
    "3.141592653589793",
    "a@b",
    "https://example.org:8080/a@b",
    "12 + 30 - 7 = 35",
    "AKIA is a prefix",
]


@pytest.mark.parametrize(("text", "kind"), [*SECRETS.items(), *PERSONAL.items()])
def test_it_is_found_in_a_sentence_and_covered(text, kind):
    [found] = find_private(f"Note this: {text} and go.")
    assert (found.kind, found.is_secret) == (kind, text in SECRETS)
    assert text not in found.shown and len(found.shown) <= 5
    covered = cover_private(f"Note this: {text} and go.")
    assert text not in covered and len(covered) == len(text) + 19
    assert covered.startswith("Note this: ") and covered.endswith(" and go.")


@pytest.mark.parametrize("text", NEITHER)
def test_it_is_left_alone(text):
    assert list(find_private(text)) == []
    assert cover_private(text) == text


def test_a_password_in_a_url_and_a_random_word_set_to_a_name_are_secrets():
    [found] = find_private("postgres://admin:fakepass99@db.internal/x")
    assert (found.kind, found.shown) == ("password in a URL", "f…9")
    for text in (
        "API_KEY=a8F3kD93hfKs02mXPq71",
        'client_secret: "a8F3kD93hfKs02mXPq71"',
        "'token': 'a8F3kD93hfKs02mXPq71'",
    ):
        [found] = find_private(text)
        assert (found.kind, found.shown) == ("secret in an assignment", "a8…71")


@given(st.lists(st.sampled_from([*SECRETS, *PERSONAL, "and", "\n", "é", "漢", "🙂"]), max_size=8))
def test_covering_keeps_every_letter_in_its_place(parts):
    text = " ".join(parts)
    covered = cover_private(text)
    assert len(covered) == len(text)
    assert all(after in (before, "•") for before, after in zip(text, covered, strict=True))
    assert not [secret for secret in SECRETS if secret in covered]


@pytest.mark.parametrize(
    "text",
    [
        "a." * 200_000 + " x@y",
        "a-" * 200_000 + " ://",
        "-eyJ" * 50_000,
        "-----BEGIN PRIVATE KEY-----" * 10_000,
        "bob@example.com " * 50_000,
        "8.8.8.8 " * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_very_long_row_takes_time_that_grows_with_its_length_alone(text):
    started = time.monotonic()
    covered = cover_private(text)
    assert len(covered) == len(text)
    assert time.monotonic() - started < 20, "hours, where a search begins anew at every letter"


def test_a_private_key_without_an_end_is_covered_up_to_the_next():
    letters = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn"
    covered = cover_private(f"-----BEGIN PRIVATE KEY-----\n{letters * 1_000}\n{PEM}")
    assert letters not in covered[:20_000] and covered.endswith("--")
    assert [found.kind for found in find_private(f"-----BEGIN PRIVATE KEY-----\n{letters}\n{PEM}")] == [
        "private key"
    ] * 2
