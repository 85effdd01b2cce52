r"""What secrets look like in text, as patterns for RE2 in the order in which they are to be tried.

A name says that a secret follows (password=x), or it is known by its own looks (AKIA...), or by
what stands around it (https://user:x@host).
"""

from __future__ import annotations

MASK = "***"
# A character that no log needs: it shields what is no secret from the patterns that follow.
_SHIELD = "\x1a"


def _read_patterns(text: str) -> list[str]:
    """Read patterns, one a line; what begins with a blank goes on with the one before."""
    lines = [line for line in text.splitlines() if line and not line.startswith("# ")]
    joined = "".join(line.strip() if line[0] == " " else f"\n{line}" for line in lines)
    return joined.split("\n")[1:]


# The names of secrets. Anything may stand before one (ssl.key.password, x-api-key), but nothing
# behind it: password.encoder.iterations is no secret.
_NAME = "|".join(
    _read_patterns(r"""
pass(?:word|wd|phrase|code)s?
secrets?
tokens?
credentials?
hmac
jaas\.config
(?:proxy-)?authorization
(?:\b|[_.-])(?:pass|pwd|pw|otp|salt|jwt|psk|sas|sig|signature|auth_?code)
(?:secret|access|api|app|account|private|shared|sign(?:ing|ature)?|encrypt(?:ion)?|master|storage
 |license|service|client|server|stored|ssh|auth|deploy|webhook|keystore|hmac|aes|rsa)
 [_. -]?key(?:[_.-]?id)?
shared[_-]?access[_-]?signature
connection[_.-]?string
user[_.-]?info
(?:set-)?cookie2?
client[_-]?assertion
x-amz-credential
[jp][a-z]{0,3}sess(?:ion)?_?id
""")
)
# What stands between a name and its value: password=x, "password" : "x", password => x.
_IS = r"""[\])]?\\*["']?[ \t]*(?:=>|->|:=|[=:\[])[ \t]*"""
_SET = f"(?i:{_NAME}){_IS}"
# A bare value ends at a blank; brackets and commas at its end belong to what stands around it.
_BARE = rf"""[^\s"'&>\\{_SHIELD}](?:[^\s"'&<>]*[^\s"'&<>\\,;(){{}}\[\]])?"""
# What stands where there is no secret, or where it was hidden before.
_PLAIN = "|".join(
    _read_patterns(r"""
(?i:null|none|nil|undefined|true|false)
(?i:[\[<(](?:hidden|redacted|masked|none|null)[\])>])
# what Kafka says of a topic whose name is reset-password
UNKNOWN_TOPIC_(?:OR_PARTITION|ID)
(?:LEADER|REPLICA)_NOT_AVAILABLE
NOT_LEADER_[A-Z_]+
INVALID_TOPIC_EXCEPTION
# what a controller says of its event expireDelegationTokens
event (?:failed with|unable to start)
TOPIC_AUTHORIZATION_FAILED
UNKNOWN_SERVER_ERROR
\*\*\*+(?:#[0-9]+)?
""")
)
# What people say of a password without telling it.
_SAID = (
    "incorrect|wrong|invalid|expired|not|too|required|missing|empty|null|set|never|no|a|an|the|weak|"
    "being|reset|changed|hidden|correct|valid|only|used|sent|stored|needed|provided|about"
)
_WORD = r"(?i:\b(?:password|passphrase|passcode)[ \t]+(?:is|was)[ \t]+)"
_QUOTED = r"""(?:\\*"(?:[^"\\\n]|\\[^"\n])*\\*"|'[^'\n]*'|[^\s;,"']+)"""
_PAIR = rf"[\w.-]+[ \t]*=[ \t]*{_QUOTED}"
_SCHEME = r"""(?i:\bauthorization)\\*["']?[ \t]*[=:][ \t]*\\*["']?[\w-]+[ \t]+"""
# Not a word of prose: a digit, a sign, or a capital in its middle.
_MIXED = "[A-Za-z0-9+/_.~-]*(?:[a-z][A-Z]|[0-9=])[A-Za-z0-9+/_=.~-]*"
_ENDING = "[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
# The first and the last line of a private key.
PRIVATE_KEY = (f"-----BEGIN {_ENDING}", f"-----END {_ENDING}")

# As in "name": "ssl.key.password", "value": "x".
_TO = r"""\\*["']?[ \t]*[=:][ \t]*\\*["']?"""

# scheme://user:password@host, scheme://token@host, jdbc:oracle:thin:user/password@host
_LOGINS = _read_patterns(r"""
(://[^\s:/@"'<>?#]*:)[^\s"'<>]+@
(://)[\w.~%+-]{10,}@
(jdbc:oracle:[a-z0-9]+:[^/\s@]+/)[^@\s]+@
""")
# What stands before the secret is kept.
_AFTER = [
    rf"(LoginModule\\*[\"']?)\s+\w+(?:\s+{_PAIR})*\s*;?",
    f"({PRIVATE_KEY[0]})(?s:.*?){PRIVATE_KEY[1]}",
    rf"({PRIVATE_KEY[0]})[A-Za-z0-9+/=\s\\:,.-]+",
    rf"(\A)[A-Za-z0-9+/=\s\\]*{PRIVATE_KEY[1]}",
    rf"({_SCHEME}){_PAIR}(?:,[ \t]*{_PAIR})*",
    rf"({_SCHEME})[\w+/=.~:$-]+",
    rf"((?i:\b(?:basic|negotiate|digest|apikey|token|splunk|sso-key))[ \t]+){_MIXED}",
    rf"({_WORD})[^\s\"'\\{_SHIELD}][^\s\"',;]*",
    rf"(<[\w:.-]*(?i:{_NAME})(?:[ \t][^<>]*)?>)[^<\n]+",
    rf"((?:name|key){_TO}[\w.-]*(?i:{_NAME})\\*[\"']?,?[ \t]*\\*[\"']?value{_TO})[^\s\"'\\,)}}]+",
    *_read_patterns(r"""
((?i:\bbearer)[ \t]+)[\w+/=.~-]{6,}
((?i:\b(?:set-)?cookie2?)\\*["']?[ \t]*[=:][ \t]*\\*["']?)[^\s;"'=]+=[^\s;"']*
 (?:;[ \t]?[^\s;"'=]+=[^\s;"']*)*
((?i:[?&](?:key|code|sig|auth|sas|st|password|token)=))[^\s&"'<>]+
(hooks\.slack\.com/[a-z]+/)[\w/-]+
(discord(?:app)?\.com/api/webhooks/)[\w/-]+
# command lines, netrc, SQL, prose
((?i:(?:^|\s)(?:-u|--user|--proxy-user)[ \t=]+["']?)[^\s:"']+:)[^\s"']+
((?i:--?[\w.-]*(?:password|passwd|passphrase|secret|token|(?:api|access)-?key))[ \t]+["']?)
 [^\s"'-][^\s"']*
(\bsshpass[ \t]+-p[ \t]*["']?)[^\s"']+
((?i:\blogin[ \t]+\S+[ \t]+password[ \t]+))\S+
((?i:\bidentified[ \t]+by[ \t]+(?:password[ \t]+)?)\\*['"])[^'"\\\n]+
((?i:\b(?:password|passphrase|passcode|secret|api key)[ \t]+(?:(?:for|of)[ \t]+\S+[ \t]+)?
 (?:(?:is|was|of|to|set to)[ \t:]+)?)\\*["'])[^"'\\\n]+
"""),
]
# Secrets that are known by their looks, whoever set them.
_LOOKS = _read_patterns(r"""
# clouds: AWS, Google, Alibaba, DigitalOcean, Databricks
\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z2-7]{10,}\b
\bAIza[\w-]{12,}
\bya29\.[\w.-]{8,}
\bGOCSPX-[\w-]{10,}
\bLTAI[A-Za-z0-9]{10,}\b
\bdo[opr]_v1_[a-f0-9]{10,}
\bdapi[a-f0-9]{12,}
# code, chat, mail, payment, monitoring
\bgh[pousr]_[A-Za-z0-9]{10,}
\bgithub_pat_\w{10,}
\bgl(?:pat|dt|rt|cbt|ptt|ft|agent|imt|soat|ffct|oas)-[\w-]{10,}
\bxox[a-z]-[A-Za-z0-9-]{8,}
\bxapp-[A-Za-z0-9-]{8,}
\bSG\.[\w-]{8,}\.[\w-]{8,}
\b[prs]k_(?:live|test)_[A-Za-z0-9]{8,}
\bwhsec_[A-Za-z0-9]{8,}
\bsk-[\w-]{10,}
\bnpm_[A-Za-z0-9]{10,}
\bpypi-[\w-]{10,}
\bhf_[A-Za-z0-9]{10,}
\bhv[sb]\.[\w-]{8,}
\bglsa_\w{10,}
\bkey-[a-f0-9]{20,}\b
\b(?:AC|SK)[a-f0-9]{20,}\b
\bNRAK-[A-Z0-9]{10,}
\bAGE-SECRET-KEY-1[A-Z0-9]{10,}
\b[0-9]{8,10}:AA[\w-]{12,}
\bshp[a-z]{2}_[a-fA-F0-9]{10,}
# three parts in base64, the first of which begins as JSON does: a JSON web token
\beyJ[\w-]{4,}\.[\w-]{4,}(?:\.[\w-]*)*
# hashes of passwords, as in /etc/shadow
\$(?:2[abxy]|[156]|y|apr1|argon2[id]+|scrypt|pbkdf2[a-z0-9-]*)\$[\w./$=,+-]{10,}
# a line of nothing but base64: the inside of a key
(?m:^[ \t]*[A-Za-z0-9+/]{40,}={0,2}[ \t]*$)
""")


def _together(patterns: list[str], instead: str) -> list[tuple[str, str]]:
    """Join patterns that keep a group each: a pass of nine costs little more than one of one."""
    nines = [patterns[at : at + 9] for at in range(0, len(patterns), 9)]
    return [("|".join(nine), r"\1\2\3\4\5\6\7\8\9"[: 2 * len(nine)] + instead) for nine in nines]


def _asked(text: str) -> str:
    return "(?i:" + "|".join(_read_patterns(text)) + ")"


_BY_NAME = _asked(r"""
passw|passp|passc|[^a-z]pass\W|pwd|[^a-z]pw\W|otp|salt|jwt|psk|secret|token|credential|hmac
jaas|authorization|key[_.-]?(?:id)?\W|signature|sig[=:]|sas[=:]|auth_?code|connection[_.-]?string
user[_.-]?info|cookie|assertion|sess(?:ion)?_?id
""")
_BY_PLACE = _asked(r"""
://[^/\s]*@|jdbc:oracle|loginmodule|private key|authorization|basic |negotiate |digest |apikey
token |splunk |sso-key|bearer|cookie|hooks\.slack|webhooks|sshpass|identified|login
(?:password|passphrase|passcode|secret|api key)[ \t]+[^ \t=:]
(?:name|key)\W*[=:]\W*[\w.-]*(?:pass|secret|token|key|jaas|cred|auth|cook|info|conn|hmac|salt|sig)
<[^<> ]*(?:pass|secret|token|key|cred|auth|cook|info|conn|hmac|salt|sig|jwt|otp|pw)
[?&](?:key|code|sig|auth|sas|st|password|token)=|(?:-u|-user)[ \t=]
-[\w.-]*(?:password|passwd|passphrase|secret|token|key)[ \t]+[^ \t=]
""")
_BY_LOOKS = _asked(r"""
a3t|akia|asia|abia|acca|aroa|aida|aiza|ya29|ltai|do[opr]_v1|dapi|gocspx|gh[pousr]_|github_pat
gl(?:pat|dt|rt|cbt|ptt|ft|agent|imt|soat|ffct|oas)-|xox|xapp|sg\.|[prs]k_|whsec|sk-|npm_
pypi-|hf_|hv[sb]\.|glsa|key-[a-f0-9]|nrak|age-secret|[0-9]:aa|shp[a-z]{2}_|eyj|private key
\b(?:ac|sk)[a-f0-9][a-f0-9][a-f0-9][a-f0-9][a-f0-9][a-f0-9]|\$(?:2|[156y]|a|s|p)[a-z0-9-]*\$
""")
# A name that is set to what is no secret; the kind of a request, as Kafka's brokers call it.
_SET_PLAIN = rf"({_SET}\\*[\"']?)((?:{_PLAIN})(?:[\\\"'\s,;)}}\]&<>]|$))"
_REQUEST = r"(\bapiKey=)((?:[A-Z_]+|[0-9]{1,3})[,)])"
# What is cheap to ask of any line; where that says yes, whether there is more of the one than
# of the other (of all that is set by name, than of what is no secret: settings are printed by the
# page); and where that says yes, each pattern, and what goes in its place.
STEPS = (
    (
        _BY_PLACE,
        None,
        (
            (_SHIELD, "\ufffd"),
            (rf"({_WORD})((?i:{_SAID})\b)", rf"\1{_SHIELD}\2"),
            *_together(_LOGINS, f"{MASK}@"),
            *_together(_AFTER, MASK),
            (_SHIELD, ""),
        ),
    ),
    (_BY_LOOKS, None, (("|".join(_LOOKS), MASK),)),
    (
        _BY_NAME,
        (_SET, f"{_SET_PLAIN}|{_REQUEST}"),
        (
            (_SHIELD, "\ufffd"),
            (_SET_PLAIN, rf"\1{_SHIELD}\2"),
            (_REQUEST, rf"\1{_SHIELD}\2"),
            # in quotes, in quotes within a quoted text, and bare
            (rf'({_SET}")(?:[^"\\\n{_SHIELD}]|\\.)(?:[^"\\\n]|\\.)*"', rf'\1{MASK}"'),
            (rf"({_SET}')(?:[^'\\\n{_SHIELD}]|\\.)(?:[^'\\\n]|\\.)*'", rf"\1{MASK}'"),
            (rf"({_SET}\\+[\"'])[^\"'\n{_SHIELD}][^\"'\n]*?(\\+[\"'])", rf"\1{MASK}\2"),
            (rf"({_SET}[\\\"']*){_BARE}", rf"\1{MASK}"),
            (_SHIELD, ""),
        ),
    ),
)
PROBE = "|".join(probe for probe, _, _ in STEPS)
# In words for people.
PLACES = (
    "passwords, tokens, secret and access keys, private keys, JAAS configurations, and credentials "
    "in URLs, headers, cookies, connection strings and command lines"
)
