"""Who may ask the page: methods, hosts, tokens, paths, and the headers a browser obeys."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tideglass.core.errors import TideglassError
from tideglass.job.directory import JobDirectory
from tideglass.page.application import Page, application
from tideglass.page.guard import Access
from tideglass.page.job_table import JobTable
from tideglass.page.server import Address

TOKEN = "a-token-of-some-length"
BEYOND = Access(token=TOKEN, local=False)


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    directory = JobDirectory(tmp_path / "heat")
    directory.path.mkdir()
    directory.journal.write_text("")
    (directory.path / "secret.txt").write_text("secret")
    (tmp_path / "outside.json").write_text("secret")
    return directory


def client(job: JobDirectory, access: Access | None = None, host: str = "127.0.0.1:8470") -> TestClient:
    page = Page(JobTable(directory=job), run=job)
    return TestClient(application(page, access or Access()), f"http://{host}", follow_redirects=False)


def code(response: object) -> str:
    return response.json()["error"]["code"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/api/jobs", "/api/job/heat/runs", "/livez", "/nowhere"])
def test_nothing_but_get_is_taken(job: JobDirectory, method: str, path: str):
    response = client(job).request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/static/nothing", "/api/job/none/status", "/livez"])
def test_every_answer_keeps_the_browser_to_this_server(job: JobDirectory, path: str):
    for response in (
        client(job).get(path),
        client(job).post(path),
        client(job, host="evil.example").get(path),
    ):
        policy = response.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in response.headers
        assert "server" not in response.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", "10.1.2.3", ""]
)
def test_a_name_that_is_not_of_this_machine_is_refused(job: JobDirectory, host: str):
    response = client(job).get("/api/jobs", headers={"host": host})
    assert (response.status_code, code(response)) == (421, "UNKNOWN_HOST")


@pytest.mark.parametrize("host", ["localhost:8470", "127.0.0.1", "[::1]:8470", "LOCALHOST"])
def test_names_of_this_machine_are_taken(job: JobDirectory, host: str):
    assert client(job).get("/api/jobs", headers={"host": host}).status_code == 200


def test_beyond_this_machine_an_address_is_taken_and_a_name_has_to_be_named(job: JobDirectory):
    headers = {"authorization": f"Bearer {TOKEN}"}
    page = client(job, Access(token=TOKEN, local=False, allowed_hosts=frozenset(("jobs.example",))))
    for host, status in (("10.1.2.3:80", 200), ("jobs.example", 200), ("evil.example", 421)):
        assert page.get("/api/jobs", headers={**headers, "host": host}).status_code == status


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/job/heat", "/api/job/heat/events", "/static/page.js"])
@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ü"])
def test_without_the_token_nothing_is_shown(job: JobDirectory, path: str, shown: str):
    headers = [(b"authorization", shown.encode("latin-1"))] if shown else []
    response = client(job, BEYOND).get(path, headers=headers)
    assert (response.status_code, code(response)) == (401, "TOKEN_NEEDED")
    assert TOKEN not in response.text


def test_a_first_visit_with_the_token_leaves_a_cookie_that_scripts_cannot_read(job: JobDirectory):
    page = client(job, BEYOND)
    first = page.get(f"/job/heat?x=1&{'token'}={TOKEN}")
    assert (first.status_code, first.headers["location"]) == (303, "/job/heat?x=1")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(first.headers["set-cookie"].split("; "))
    assert page.get("/api/jobs").status_code == 200
    assert client(job, BEYOND).get("/api/jobs?token=wrong").status_code == 401
    wrong = client(job, BEYOND).get("/api/jobs", headers={"cookie": "tideglass-token=wrong"})
    assert wrong.status_code == 401


def test_a_redirect_stays_on_this_server(job: JobDirectory):
    response = client(job, BEYOND).get(f"http://127.0.0.1:8470//evil.example/?token={TOKEN}")
    assert (response.status_code, response.headers["location"]) == (303, "/evil.example/")


def test_probes_need_no_token_and_then_name_nothing(job: JobDirectory):
    page = client(job, BEYOND)
    assert page.get("/livez").json() == {
        "status": "UP",
        "checks": [{"name": "page", "status": "UP"}, {"name": "report", "status": "UP"}],
    }
    response = page.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "DOWN")
    known = page.get("/readyz", headers={"authorization": f"Bearer {TOKEN}"})
    assert known.json()["checks"][1] == {"name": "first batch", "status": "DOWN", "state": None}


@pytest.mark.parametrize(
    "path",
    [
        "/static/../application.py",
        "/static/..%2fapplication.py",
        "/static/%2e%2e/application.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\application.py",
        "/static/index.html%00.js",
        "/api/job/../jobs/status",
        "/api/job/%2e%2e/status",
        "/api/job/..%2f..%2foutside.json/status",
        "/api/job/heat/secret.txt",
        "/api/job/heat/..%2fsecret.txt",
        "/api/job/heat/status.json",
        "/job/..%2f..",
        "/heat/secret.txt",
        "/secret.txt",
    ],
)
def test_no_part_of_an_address_is_a_path(job: JobDirectory, path: str):
    response = client(job).get(f"http://127.0.0.1:8470{path}")
    assert response.status_code == 404
    assert "secret" not in response.text.replace("secret.txt", "")
    assert "root:" not in response.text


@pytest.mark.parametrize(
    "token", ["short", "with space in the token", "semicolon;semicolon", "zeile\nzeile-zeile-zeile"]
)
def test_a_token_that_can_be_guessed_or_breaks_a_header_is_refused(token: str):
    with pytest.raises(TideglassError, match="PAGE_TOKEN"):
        Address(token=token).chosen_token()


def test_a_token_is_demanded_beyond_this_machine_only():
    assert Address().chosen_token() is None
    assert Address(token=TOKEN).chosen_token() == TOKEN
    generated = {Address(host=host).chosen_token() for host in ("0.0.0.0", "10.1.2.3", "::", "box.example")}
    assert len(generated) == 4
    assert all(token and len(token) >= 32 for token in generated)
    assert [Address(host=host).is_local for host in ("localhost", "127.0.0.1", "::1", "127.9.9.9")] == [
        True
    ] * 4


def test_a_number_that_is_none_is_refused(job: JobDirectory):
    for text in ("x", "nan", "-1", "1e300", ""):
        response = client(job).get("/api/job/heat/history", params={"since_ms": text})
        assert (response.status_code, code(response)) == (400, "NO_NUMBER")


def test_a_fault_of_the_page_says_nothing_of_itself_and_has_the_headers(
    job: JobDirectory, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("tideglass.page.application.jobs_answer", fails)
    page = Page(JobTable(directory=job))
    found = TestClient(application(page, Access()), "http://127.0.0.1:8470", raise_server_exceptions=False)
    response = found.get("/api/jobs")
    assert (response.status_code, code(response)) == (500, "FAULT")
    assert "secret" not in response.text
    assert "default-src 'self'" in response.headers["content-security-policy"]
