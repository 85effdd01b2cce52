"""Forty-odd ways in which a secret gets into a log; § stands for the secret."""

from __future__ import annotations

__all__ = ["CANARIES", "FIXED", "HARMLESS"]

CANARIES = {
    "property": "password=§",
    "spaced property": "ssl.key.password = §",
    "property of a map": "props: {ssl.keystore.password=§, acks=all}",
    "json": '{"password":"§","x":1}',
    "json with blanks": '"ssl.truststore.password" : "§ two",',
    "json in a json text": r"{\"db\":{\"passwd\":\"§\"}}",
    "yaml": "sasl_passphrase: §",
    "single quotes": "pwd='§'",
    "python or ruby map": "'api_key' => '§'",
    "scala map": "Map(refresh_token -> §, x -> 1)",
    "java record": "Login[user=bob, password[§]]",
    "xml element": "<db:password>§</db:password>",
    "xml attribute": '<property name="db.password" value="§"/>',
    "list of settings": '{"name": "ssl.key.password", "value": "§"}',
    "config entry": "ConfigEntry(name=sasl.jaas.config, value=§, isSensitive=true)",
    "jaas plain": (
        "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="§ x";'
    ),
    "jaas file": (
        "KafkaClient { org.apache.kafka.common.security.scram.ScramLoginModule required "
        "username='u' password='§'; };"
    ),
    "jaas oauth": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="c" clientSecret="§" scope="s";'
    ),
    "oauth form": "grant_type=client_credentials&client_secret=§&scope=x",
    "access token": "access_token: §",
    "id token in a query": "GET https://idp/cb?id_token=§&state=1",
    "bearer": "Authorization: Bearer §",
    "bearer in prose": "refused bearer § of bob",
    "basic": "Authorization: Basic §",
    "digest": 'authorization: Digest username="bob", nonce="1", response="§"',
    "proxy": "Proxy-Authorization: §",
    "api key header": "X-Api-Key: §",
    "cookie": "Cookie: theme=dark; JSESSIONID=§; x=y",
    "set-cookie": "Set-Cookie: sid=§; Path=/; HttpOnly",
    "aws secret": "AWS_SECRET_ACCESS_KEY=§",
    "aws signature": "https://s3/x?X-Amz-Credential=§&X-Amz-Signature=§",
    "aws header": (
        "Authorization: AWS4-HMAC-SHA256 Credential=§/20261118/eu/s3, SignedHeaders=host, "
        "Signature=§"
    ),
    "azure service bus": "Endpoint=sb://x.windows.net/;SharedAccessKeyName=n;SharedAccessKey=§=",
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=§==;Suffix=core",
    "azure sas": "https://x.blob.core/c?sv=2020&sig=§%3D&se=1",
    "url": "https://user:§@registry/subjects",
    "url with an at sign": "amqp://user:p@§/v@queue/x",
    "redis url": "redis://:§@cache:6379/0",
    "mongo url": "mongodb+srv://u:§@cluster.mongodb.net/db",
    "jdbc": "jdbc:postgresql://db/x?user=u&password=§&ssl=true",
    "jdbc oracle": "jdbc:oracle:thin:scott/§@//db:1521/x",
    "command line": "kafka-acls --token § --list",
    "command line, joined": "java -Djavax.net.ssl.keyStorePassword=§ -jar x",
    "curl": "curl -u alice:§ https://registry",
    "sshpass": "sshpass -p § ssh host",
    "environment": "export PGPASSWORD=§",
    "netrc": "machine registry login u password §",
    "sql": "ALTER USER u IDENTIFIED BY '§'",
    "scram": "salt=§,stored_key=§,server_key=§,iterations=4096",
    "schema registry": "basic.auth.user.info=bob:§",
    "private key in a line": r"-----BEGIN PRIVATE KEY-----\n§\n-----END PRIVATE KEY-----",
    "keystore key": "ssl.keystore.key = §",
    "hmac": "TokenInformation hmac=§",
    "slack hook": "https://hooks.slack.com/services/T0/B0/§",
    "prose": "the password is §",
    "quoted prose": 'password for bob is "§"',
}  # fmt: skip
# Secrets by their looks.
FIXED = (
    "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefABCDEF0123456789abcd", "xoxb-12345678901-abcDEF",
    "glpat-abcdefghij0123456789", "sk_live_0123456789abcdef", "hvs.CAESIabcdefgh0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJlLW9mLWJvYg", "npm_0123456789abcdefABCDEF",
    "$2b$12$abcdefghijklmnopqrstuv0123456789ABCDEF",
)  # fmt: skip
# What looks a little like one, and is none.
HARMLESS = (
    "ssl.key.password = [hidden]", "sasl.jaas.config = null", "password.encoder.iterations = 4096",
    "Authentication failed: Invalid username or password", "the password is incorrect",
    "invalid credentials with SASL mechanism SCRAM-SHA-256", "basic authentication failed",
    "Session establishment complete on server, sessionid = 0x1000038a3b20000",
    "correlation id 3 : {reset-password=UNKNOWN_TOPIC_OR_PARTITION}",
    "[Partition reset-password-0 broker=1] Shrinking ISR from 1,2 to 1",
    "Node kafka-1:9092 (id: 1 rack: null) disconnected", "controller.quorum.voters = [1@b1:9093]",
    "advertised.listeners = [PLAINTEXT://kafka-1:9092,EXTERNAL://kafka-1.shop.com:9094]",
)  # fmt: skip
