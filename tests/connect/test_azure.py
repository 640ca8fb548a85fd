"""What services of Azure share: stand-ins for hosts, references to secrets, tokens of Entra ID."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tideglass.connect.azure import entra
from tideglass.connect.azure.endpoints import ENDPOINTS, endpoint, endpoints_in, with_endpoints
from tideglass.connect.azure.entra import entra_token
from tideglass.connect.azure.secrets import input_secret, is_literal, masked, output_secret, secret_reference
from tideglass.connect.environment import resolved
from tideglass.core.errors import ProjectError

HOST = "toll.servicebus.windows.net"


def test_a_host_has_a_stand_in_only_where_the_environment_names_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(ENDPOINTS, raising=False)
    assert endpoint(HOST) is None
    monkeypatch.setenv(
        ENDPOINTS, json.dumps({"Toll.ServiceBus.windows.net": "SASL_PLAINTEXT://127.0.0.1:9/"})
    )
    assert endpoint("TOLL.servicebus.windows.net") == "sasl_plaintext://127.0.0.1:9"
    assert endpoint("other.servicebus.windows.net") is None


def test_endpoints_of_the_command_line_stand_before_those_of_the_environment():
    environment = {ENDPOINTS: json.dumps({HOST: "http://a", "b.net": "http://b/x"})}
    text = with_endpoints([f"{HOST}=http://c:1/path?x=y", "d.net=https://d"], environment)
    assert endpoints_in({ENDPOINTS: text}) == {
        HOST: "http://c:1/path?x=y",
        "b.net": "http://b/x",
        "d.net": "https://d",
    }


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a.net": 1}', '{"a.net": "b"}', '{"https://a.net": "http://b"}']
)
def test_endpoints_that_are_none_are_refused_by_the_name_of_the_variable(text: str):
    with pytest.raises(ProjectError, match=ENDPOINTS):
        endpoints_in({ENDPOINTS: text})


@pytest.mark.parametrize("text", ["a.net", "=http://b", "a.net=", "a.net=b", "a.net:443=http://b"])
def test_an_option_that_is_no_endpoint_is_refused(text: str):
    with pytest.raises(ProjectError, match="--endpoint"):
        with_endpoints([text], {})


def test_a_missing_secret_is_that_of_the_deployment_template():
    name = output_secret("hot", "AccountKey")
    for value in (None, "", "  ", 5):
        assert secret_reference(value, name) == "${Outputs_hot_DataSource_AccountKey}"
    assert secret_reference("${MINE}", name) == "${MINE}"
    assert secret_reference("abc=", name) == "abc="
    assert is_literal("abc=")
    assert not is_literal("Endpoint=sb://x/;SharedAccessKey=${MINE}")
    assert input_secret("a b", "SharedAccessPolicyKey") == "Inputs_a_b_DataSource_SharedAccessPolicyKey"


def test_a_secret_may_be_in_a_file_and_the_variable_itself_comes_first(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text("from file\n")
    assert resolved("<${KEY}>", {"KEY_FILE": str(file)}) == "<from file>"
    assert resolved("${KEY}", {"KEY": "", "KEY_FILE": str(file)}) == ""
    with pytest.raises(ProjectError, match="KEY_FILE for a file"):
        resolved("${KEY}", {})
    with pytest.raises(ProjectError, match=f"{tmp_path}/other, which KEY_FILE names"):
        resolved("${KEY}", {"KEY_FILE": str(tmp_path / "other")})


def test_a_longer_secret_is_masked_before_one_it_begins_with():
    assert masked("key abc= and abc=def", ["abc=", "abc=def", ""]) == "key *** and ***"


class SignIn(BaseHTTPRequestHandler):
    """The token endpoint of one tenant, for one application; counts the tokens it has given out."""

    given = 0
    expires_in = 3600

    def do_POST(self) -> None:
        words = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        known = self.path == "/tenant-1/oauth2/v2.0/token" and words["client_secret"] == "s&cret"
        body = {"error": "invalid_client"}
        if known and words["client_id"] == "app" and words["grant_type"] == "client_credentials":
            SignIn.given += 1
            body = {
                "access_token": f"{words['scope']}#{SignIn.given}",
                "expires_in": SignIn.expires_in,
                "token_type": "Bearer",
            }
        data = json.dumps(body).encode()
        self.send_response(200 if "access_token" in body else 401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test's output is its own."""


@pytest.fixture
def sign_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[SignIn]]:
    """A stand-in for the host of Entra ID."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SignIn)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv(ENDPOINTS, json.dumps({entra.LOGIN_HOST: url}))
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant-1")
    monkeypatch.setenv("AZURE_CLIENT_ID", "app")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "s&cret")
    monkeypatch.setattr(entra, "_kept", {})
    monkeypatch.setattr(SignIn, "given", 0)
    monkeypatch.setattr(SignIn, "expires_in", 3600)
    yield SignIn
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_application_signs_in_once_while_its_token_holds(sign_in: type[SignIn]):
    assert [entra_token("https://a/.default").text for _ in range(2)] == ["https://a/.default#1"] * 2
    assert entra_token("https://b/.default").text == "https://b/.default#2"
    assert "https" not in repr(entra_token("https://a/.default")), "a token is not shown"


def test_a_token_that_nearly_ends_is_asked_for_again(sign_in: type[SignIn]):
    sign_in.expires_in = 60
    assert [entra_token("x").text for _ in range(2)] == ["x#1", "x#2"]


def test_a_refused_application_is_told_without_its_secret(
    sign_in: type[SignIn], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "wrong-secret")
    with pytest.raises(ProjectError, match="refuses the application app") as told:
        entra_token("x")
    assert "wrong-secret" not in str(told.value)
