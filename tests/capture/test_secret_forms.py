"""Forms that secrets have in commands, none of which is stored, and ordinary arguments, all of which are."""

from __future__ import annotations

import re

import pytest

from tests.capture.test_secrets import redacted
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: Letters and digits without a meaning; made here, so that no scanner of repositories takes a form for a real one.
X = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1BcD4eFg7HiJ0k"
UPPER = "AB3DEF6HIJ9LMN2P"
HEX = "3f9a1c7e5b2d8046f1e3a5c7d9b0e2f4"
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{X}.{X}"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMII{X}\n{X}\n-----END RSA PRIVATE KEY-----"

#: A command as words; S stands for the secret that must not be stored, whole or in part.
BY_NAME = [
    "p --password S", "p --password=S", "p -password S", "p --passwd S", "p --db-password=S", "p --pass S",
    "p --pass=S", "p --db-pass S", "p --db_pass=S", "p --pw S", "p --passcode S", "p --passphrase S", "p --pwd S",
    "p --token S", "p --auth-token=S", "p --access-token S", "p --refresh_token=S", "p --api-key S", "p --apikey=S",
    "p --x.api_key=S", "p --secret S", "p --client-secret=S", "p --secret-key S", "p --access-key S",
    "p --accessKey=S", "p --account-key S", "p --private-key S", "p --private_key=S", "p --signing-key S",
    "p --encryption-key=S", "p --master-key S", "p --license-key=S", "p --jwt S", "p --jwt=S", "p --cookie S",
    "p --cookies=S", "p --session-key S", "p --auth-key S", "p --storage-key S", "p --credential S",
    "env DB_PASS=S p", "env MYSQL_PWD=S p", "env PGPASSWORD=S p", "env SMTP_PASS=S p",
    "env AWS_SECRET_ACCESS_KEY=S p", "env WANDB_API_KEY=S p", "env HF_TOKEN=S p", "env AZURE_STORAGE_KEY=S p",
    "env DJANGO_SECRET_KEY=S p", "env JWT_SECRET=S p", "env ACCESS_KEY=S p", "env FERNET_KEY=S p",
    "openssl rsa -in k pass:S",
]  # fmt: skip
#: A line of a shell.
IN_LINES = [
    "DB_PASS=S p", "export DB_PASS='S'", "curl -H 'Cookie: a=S; b=S' u", "curl -H 'Set-Cookie: S' u",
    "curl --cookie 'a=S; b=S' u", "curl -H 'Authorization: Bearer S' u", "curl -H 'Authorization: Basic S' u",
    "curl -H 'Proxy-Authorization: Basic S' u", "curl -H 'X-Api-Key: S' u", "curl -H 'X-Auth-Token: S' u",
    "curl -H 'PRIVATE-TOKEN: S' u", "az 'DefaultEndpointsProtocol=https;AccountName=n;AccountKey=S;EndpointSuffix=x'",
    "az 'Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=S'", "az 'SharedAccessSignature=S'",
    "curl 'https://h/b?sv=2&sig=S&se=3'", "curl 'https://h/b?X-Amz-Signature=S'", "psql postgres://u:S@h/d",
    "git clone https://u:S@h/x", "git clone https://S@h/x", "redis-cli -u redis://:S@h:1",
    "p '{\"private_key\": \"S\"}'", "p --config '{\"access_key\": \"S\"}'",
    "python -c 'f(private_key=\"S\", jwt=\"S\")'", "p --private-key S --access-key S", "p --jwt S x",
    "mongo 'mongodb+srv://u:S@h/d'", "docker run -e DB_PASS=S -e COOKIE=S image",
    r"""curl -d '{'\''token'\'': '\''S'\'', '\''a'\'': 1}' u""", r"""sh -c 'p --password='\''S and S'\''; q' u""",
    """curl -d '{'"'"'token'"'"': '"'"'S'"'"'}' u""", """sh -c 'DB_PASS='"'"'S, S'"'"' p --jwt '"'"'S'"'"'' u""",
]  # fmt: skip
#: Secrets that nothing names; each is tried as a word, in a line, as a value, in quotes and in a URL.
SHAPES = [
    "ghp_" + X, "gho_" + X, "ghs_" + X, "github_pat_11ABCDE0_" + X, "glpat-" + X[:20],
    "glpat-" + X[:8] + "_" + X[9:17] + "-" + X[:3], "AKIA" + UPPER, "ASIA" + UPPER, "sk-" + X, "sk-proj-" + X,
    "sk-ant-api03-" + X, "sk_live_" + X, "rk_test_" + X, "whsec_" + X, "xoxb-123456789012-123456789012-" + X,
    "xoxp-" + X, "xoxa-2-" + X, "xapp-1-A0-" + X, JWT, "hf_" + X, "npm_" + X, "pypi-AgEIcHlwaS5vcmc" + X,
    "AIza" + X[:35], "ya29." + X, "dop_v1_" + HEX * 2, "dapi" + HEX, "hvs." + X, "dckr_pat_" + X[:27], "shpat_" + HEX,
    "SG." + X[:22] + "." + X, "gsk_" + X, "r8_" + X, "nvapi-" + X, "glsa_" + X, "tskey-auth-" + X, "lin_api_" + X,
    "ATATT3x" + X, "rubygems_" + X + X, "figd_" + X, "PMAK-" + HEX, "sq0atp-" + X[:22], "xkeysib-" + HEX * 2,
    "LTAI5t" + X[:18],
]  # fmt: skip
#: Commands that stay as they are.
ORDINARY = [
    "p --key-column id", "p --token-length 512", "p --max-tokens 5", "p --max-token 5", "p --tokens 7",
    "p --tokenizer gpt2", "p --pad-token <pad>", "p --eos_token </s>", "p --mask-token=[MASK]", "p --passes 3",
    "p --pass-through x", "p --bypass x", "p --compass north", "ffmpeg -pass 1 -i x", "ffmpeg -pass 2 x",
    "p --low-pass 300", "p --high_pass=20", "p --single-pass x", "p --author me", "p --authority x",
    "p --authors a,b", "p --sk-learn 1", "p sk-learn-model-v2", "p sk-learn-2024-experiments-run12",
    "p --secret-name x", "p --password-file /run/x", "p --token-path x", "p --pwd-env X",
    "p --private-key /home/me/.ssh/id_ed25519", "p --private-key=~/.ssh/id_rsa", "p --private-key ./k.pem",
    "p --public-key abc", "p --key id", "p --keys a,b", "p --sort-key name", "p --primary-key id",
    "p --foreign-key=a", "p --keyboard us", "p --cookie-jar jar.txt", "p --cookiecutter x", "p --accessed 3",
    "p --access rw", "p --account me", "p --pin 3", "p 3b18e512dba79e4c8300dd08aeb37f8e728b8dad", f"p {HEX}{HEX}",
    "p 123e4567-e89b-12d3-a456-426614174000", "p /data/YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo=.bin", f"p /data/{X}.npy",
    "p --sha 3b18e512dba79e4c8300dd08aeb37f8e728b8dad", "p --commit=3b18e51", "p hf_model_checkpoints",
    "p hf_cache/dataset", "p --repo hf_hub", "p npm_config_cache", "p npm_package_json", "p pypi-mirror",
    "p pypi-simple-index-2024", "p ghp_x", "p AKIA", "p AKIAB", "p ASIA", "p ASIAPACIFIC", "p EURASIA2024REPORT1",
    "p eyJ", "p eyJhbGciOiJIUzI1NiJ9", "p a.b.c", "p eyJ.a.b", "p xoxo-abc", "p xapp", "p dapi-server", "p SG.py",
    "p task-management", "p disk-usage-report-2024", "p --risk-model x", "p --passive", "p --password-prompt",
    "p http://h:80/x", "p s3://bucket/key=5/x", "p user@host:/path", "p 12:30:00", "p a=b", "p --batch-size=32",
    "p --lr=3e-4", "p --seed 42", "p --data-dir /d --out o", "p --monkey x", "p --turkey=y", "p --tokenize",
    "p --jwtx a", "p --pwdx b", "p --spw c", "p --encryption aes", "p r8_x", "p --seq-len=512", "p -----BEGIN",
    "p --secretary ann", "p --secretary=bob", "p LTAI5test", "p figd_x", "p PMAK-x",
    "p --checkpoint model.safetensors", "p --layers=0,1,2", "p --device cuda:0",
]  # fmt: skip


def lines_of(program: Runner, lines: list[str]) -> list[str]:
    return redacted(program, lines, False)


def words_of(program: Runner, lines: list[list[str]]) -> list[str]:
    given = ["".join(word + "\0" for word in words) for words in lines]
    return redacted(program, given, True)


def test_no_secret_is_stored(program: Runner) -> None:
    # GIVEN commands with secrets, which a name announces, as words and as lines of a shell
    secret = "Hunter2x"
    commands = [re.sub(r"\bS\b", secret, one) for one in BY_NAME]
    words = [one.split(" ") for one in commands]
    lines = [*commands, *(re.sub(r"\bS\b", secret, one) for one in IN_LINES)]
    # WHEN the core makes what is stored of them THEN nothing of a secret is left, and the mark is there
    found = [*words_of(program, words), *lines_of(program, lines)]
    left = [one for one in found if secret in one or "***" not in one]
    assert not left, "\n".join(left)


def test_no_secret_of_a_known_form_is_stored(program: Runner) -> None:
    # GIVEN secrets of known forms that nothing announces
    words, lines = [], []
    for one in SHAPES:
        words += [["p", one, "x"], ["p", f"--value={one}"], ["p", "--value", one], ["sh", "-c", f"p {one} x"]]
        lines += [
            f"p {one} x",
            f"p 'a {one} b'",
            f"p --v={one}",
            f"echo {one}|p",
            f'f("{one}")',
            f"p https://h/{one}/x",
            f"A={one} p",
        ]
    words.append(["p", PEM, "x"])
    lines += [f"echo '{PEM}' > k", "echo " + PEM.replace("\n", "\\n")]
    # WHEN the core makes what is stored of them THEN no end of one is left
    found = [*words_of(program, words), *lines_of(program, lines)]
    tails = {one[-8:] for one in SHAPES} | {X[:12]}
    assert [one for one in found if any(tail in one for tail in tails) or "***" not in one] == []
    assert words_of(program, [["p", "ghp_" + X, "x"]]) == ["p\0***\0x\0"]
    assert lines_of(program, [f"p {JWT} x", f"echo '{PEM}' > k"]) == ["p *** x", "echo '***' > k"]


def test_ordinary_arguments_stay(program: Runner) -> None:
    # GIVEN ordinary commands WHEN they are stored THEN all of them is
    words = [one.split(" ") for one in ORDINARY]
    assert [one.split("\0")[:-1] for one in words_of(program, words)] == words
    assert lines_of(program, ORDINARY) == ORDINARY
