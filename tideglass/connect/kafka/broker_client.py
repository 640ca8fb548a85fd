"""A client of brokers on the driver: librdkafka by confluent-kafka, with the settings of Spark's connector.

The connector's options are Kafka's own, for Java; librdkafka has the same names but for how one signs in.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from tideglass.connect.azure.entra import LOGIN_HOST, entra_token
from tideglass.connect.kafka.stand_in import TOKEN_URL
from tideglass.core.errors import OutputError, OutputUnavailable, ProjectError

_PREFIX = "kafka."
_JAAS = "sasl.jaas.config"
#: Options of the Java client alone, which say what librdkafka does by itself.
_OF_JAVA = ("sasl.login.callback.handler.class", "sasl.oauthbearer.token.endpoint.url", _JAAS)
_ARGUMENT = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
#: How long one call waits for a broker.
WAIT_SECONDS = 30.0


def kafka_library() -> Any:
    """The module confluent_kafka. Raises OutputError where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise OutputError(
            "writing topics on the driver needs confluent-kafka\n  hint: pip install 'tideglass[kafka]'"
        ) from error
    return cast("Any", confluent_kafka)


def client_settings_of(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings of librdkafka that mean what options of Spark's connector mean.

    options: with secrets, and the brokers that are spoken to.
    Raises OutputError for a way to sign in that is not known.
    """
    found: dict[str, Any] = {
        name[len(_PREFIX) :]: value
        for name, value in options.items()
        if name.startswith(_PREFIX) and name[len(_PREFIX) :] not in _OF_JAVA
    }
    found.pop("group.id", None)
    arguments = dict(_ARGUMENT.findall(options.get(_PREFIX + _JAAS, "")))
    arguments = {name: re.sub(r"\\(.)", r"\1", value) for name, value in arguments.items()}
    if found.get("sasl.mechanism") == "OAUTHBEARER":
        scope = arguments.get("scope", "")
        hosts = (LOGIN_HOST, _login_stand_in(environment))
        if not scope or not any(host and host in options.get(TOKEN_URL, "") for host in hosts):
            raise OutputError("tokens that are not of Entra ID are not yet supported for this output")

        def token(_: str) -> tuple[str, float]:
            signed = entra_token(scope)
            return signed.text, signed.expires_seconds

        found["oauth_cb"] = token
    elif "username" in arguments:
        found["sasl.username"] = arguments["username"]
        found["sasl.password"] = arguments.get("password", "")
    return found


def _login_stand_in(environment: Mapping[str, str]) -> str | None:
    from tideglass.connect.azure.endpoints import endpoints_in

    return endpoints_in(environment).get(LOGIN_HOST)


class BrokerErrors:
    """What a client tells beside the answers of its calls; the newest error of signing in."""

    def __init__(self) -> None:
        self.refused: str | None = None

    def __call__(self, error: Any) -> None:
        if error.code() == kafka_library().KafkaError._AUTHENTICATION:
            self.refused = error.str()


def made_client(make: Callable[[Mapping[str, Any]], Any], settings: Mapping[str, Any], what: str) -> Any:
    """A client of the library. Raises OutputError for settings it does not know."""
    quiet: dict[str, Any] = {"log_level": 0}
    try:
        return make({**quiet, **settings})
    except kafka_library().KafkaException as error:
        raise OutputError(
            f"{what} cannot be written with its options: {error.args[0].str()}\n  hint: they are settings "
            "of librdkafka here, such as ssl.ca.location in place of ssl.truststore.location"
        ) from error


def output_error(error: Any, what: str, errors: BrokerErrors) -> OutputError:
    """What an error of the library means for the run: it ends, or the batch is tried again.

    what: the topic, in words for people.
    """
    kinds = kafka_library().KafkaError
    code = error.code()
    if errors.refused is not None or code == kinds._AUTHENTICATION:
        reason = errors.refused or error.str()
        return OutputError(
            f"the broker of {what} refuses the credentials: {_first_line(reason)}\n"
            "  hint: look at the policy and its key, or the application of Entra ID"
        )
    if code in (kinds._FENCED, kinds.INVALID_PRODUCER_EPOCH, kinds.PRODUCER_FENCED):
        return OutputError(
            f"another run of this job writes to {what}, and this one must not any more\n"
            "  hint: stop one of them; a job directory is for one run at a time"
        )
    if code in (kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_TOPIC):
        return OutputError(f"{what} does not exist\n  hint: make it, or look at its name and namespace")
    if code in (
        kinds.TOPIC_AUTHORIZATION_FAILED,
        kinds.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        kinds.CLUSTER_AUTHORIZATION_FAILED,
        kinds.GROUP_AUTHORIZATION_FAILED,
    ):
        return OutputError(f"the broker does not allow to write to {what}: {_first_line(error.str())}")
    return OutputUnavailable(f"{what} cannot be written now: {_first_line(error.str())}")


def signed_in(settings: Mapping[str, Any], what: str) -> None:
    """Get a token once, so that a refusal is reported in words. Raises OutputError, OutputUnavailable."""
    if "oauth_cb" in settings:
        try:
            settings["oauth_cb"]("")
        except ProjectError as error:
            raise OutputError(f"{what} cannot be written: {error}") from error
        except OSError as error:
            raise OutputUnavailable(f"{what} cannot be written now: no token of Entra ID: {error}") from error


def until(done: Callable[[], bool], seconds: float = WAIT_SECONDS) -> bool:
    """Ask again and again until something is so; False where it is not in time."""
    limit = time.monotonic() + seconds
    while not done():
        if time.monotonic() > limit:
            return False
    return True


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
