"""Uses the console as an operator does, in Chromium by way of chromedriver, and looks at what it shows.

Called by scripts/test-console. Only the standard library: WebDriver is HTTP and JSON. Everything it starts listens on loopback, and ends with it.
"""

import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

WAIT_S = 60
EVIL = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
SWITCHES = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-component-update disable-sync"
).split()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return answer.read()


def until(what, check):
    """Waits for something to be so; says what it was, and how it is, if that takes too long."""
    end, last = time.monotonic() + WAIT_S, None
    while time.monotonic() < end:
        try:
            last = check()
        except (urllib.error.URLError, ConnectionError) as problem:
            last = problem
        if last is True:
            print(f"  {what}")
            return
        time.sleep(0.1)
    sys.exit(f"test-console: not in {WAIT_S} s: {what}; last seen: {str(last)[:2000]}")


class Browser:
    def __init__(self, folder, started):
        port = free_port()
        started.append(subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL))
        self.driver = f"http://127.0.0.1:{port}"
        until("the browser's driver is ready", lambda: json.loads(call("GET", self.driver + "/status"))["value"]["ready"])
        arguments = ["--" + switch for switch in SWITCHES] + [f"--user-data-dir={folder}/profile"]
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}}
        session = json.loads(call("POST", self.driver + "/session", wanted))["value"]["sessionId"]
        self.session = f"{self.driver}/session/{session}"

    def open(self, url):
        call("POST", self.session + "/url", {"url": url})

    def run(self, script):
        return json.loads(call("POST", self.session + "/execute/sync", {"script": script, "args": []}))["value"]

    def text(self):
        return self.run("return document.body.innerText")

    def shows(self, what, *texts):
        def check():
            seen = self.text()
            return all(text in seen for text in texts) or seen
        until(what, check)

    def complaints(self):
        entries = json.loads(call("POST", self.session + "/se/log", {"type": "browser"}))["value"]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def close(self):
        call("DELETE", self.session)


class Server:
    def __init__(self, bin, folder, name, started, *more):
        client, peer, self.http = free_port(), free_port(), free_port()
        self.endpoint, self.setpoint = f"127.0.0.1:{client}", [f"{bin}/setpoint", "-s", f"127.0.0.1:{client}"]
        listen = ["--listen-client", self.endpoint, "--listen-peer", f"127.0.0.1:{peer}", "--listen-http", f"127.0.0.1:{self.http}"]
        log = open(f"{folder}/{name}.log", "w")
        started.append(subprocess.Popen([f"{bin}/setpointd", "--name", name, "--data-dir", f"{folder}/{name}", *listen, *more], stderr=log))
        until(f"node {name} is ready", lambda: call("GET", f"http://127.0.0.1:{self.http}/readyz") == b"ok\n")

    def do(self, *words, text=None):
        subprocess.run([*self.setpoint, *words], input=text, text=True, check=True, stdout=subprocess.DEVNULL)

    def page(self, hash=""):
        return f"http://127.0.0.1:{self.http}/console/#/{hash}"


def node(name, **annotations):
    metadata = {"name": name, "annotations": annotations}
    return json.dumps({"kind": "Node", "metadata": metadata, "spec": {"zone": "z1", "capacity": {"cpu": "4", "memory": "8Gi"}}})


def refusals(server):
    """What no browser of ours sends: other sites' requests, and questions that are too large."""
    def status(path, **headers):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.http, timeout=WAIT_S)) as connection:
            connection.request("GET", "/console/" + path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read(64 << 10).decode()

    ours = {"X_Setpoint_Console": "1"}
    for what, wanted, seen in [
        ("a name that is not the node's", 421, status("", Host="evil.example")),
        ("data for a page of another name", 421, status("api/kinds", Host="evil.example", **ours)),
        ("data without our mark", 403, status("api/kinds")),
        ("data for another site", 403, status("api/kinds", Sec_Fetch_Site="cross-site", **ours)),
        ("data for our own", 200, status("api/kinds", Sec_Fetch_Site="same-origin", **ours)),
        ("a kind that is not there", 400, status("api/list?kind=Nonsense", **ours)),
        ("a question nobody knows", 400, status("api/list?kind=Node&sudo=1", **ours)),
        ("too many kinds at once", 400, status("api/live?kinds=" + ",".join(["Node"] * 9), **ours)),
        ("a file that is not there", 404, status("../../etc/passwd", **ours)),
    ]:
        if seen[0] != wanted:
            sys.exit(f"test-console: {what}: expected {wanted}, got {seen}")
    print("  other sites and bad questions are refused")


def beats(server):
    """A stream goes on after the revision it is told, so a cut misses nothing."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.http, timeout=WAIT_S)) as connection:
        connection.request("GET", "/console/api/live?kinds=Node&from=1", headers={"X-Setpoint-Console": "1"})
        beat = json.loads(connection.getresponse().readline().removeprefix(b"data: "))
    if not beat["changes"].get("Node") or beat["revision"] < 2:
        sys.exit(f"test-console: a stream from revision 1 on does not tell of what happened since: {beat}")
    print("  a stream goes on where it was cut")


def open_cluster(browser, server):
    server.do("apply", "-f", "-", text=node("a1", note=EVIL))
    refusals(server)
    beats(server)
    browser.open(f"http://127.0.0.1:{server.http}/")
    browser.shows("/ leads to the overview, with its members and who leads", "Overview", "leader", "o1", "live at revision")
    browser.open(server.page("nodes"))
    browser.shows("nodes are listed, and the page is live", "a1", "z1", "live at revision")
    browser.run("window.same = true")
    server.do("apply", "-f", "-", text=node("late"))
    browser.shows("a node that was added appears", "late")
    server.do("cordon", "late")
    browser.shows("a node that was cordoned is shown so", "cordoned")
    server.do("delete", "node", "late", "--wait=false")
    until("a node that was deleted goes", lambda: "late" not in browser.text() or browser.text())
    if browser.run("return window.same") is not True:
        sys.exit("test-console: the page was loaded anew")
    browser.open(server.page("object/Node//a1"))
    browser.shows("markup in an annotation is text", "document.title='taken'", "onerror")
    if browser.run("return document.title") != "a1 · Setpoint" or browser.run("return document.querySelectorAll('main script, main img').length"):
        sys.exit("test-console: markup of an object became part of the page")
    browser.open(server.page("kind/Node"))
    browser.shows("any kind is a table with its columns", "a1", "Unschedulable")
    browser.open(server.page("object/Node//nobody"))
    browser.shows("what is not there is said in a sentence", "nobody")
    for page in ["workloads", "decisions", "events", "kinds"]:
        browser.open(server.page(page))
        browser.shows(f"{page} can be opened", "live at revision")


def closed_cluster(browser, server, token):
    browser.open(server.page("nodes"))
    browser.shows("without a token it asks who one is", "Who are you?")
    type_token = "const field = document.getElementById('token'); field.value = '{}'; field.form.requestSubmit()"
    browser.run(type_token.format("spt_nonsense"))
    browser.shows("a bad token is refused in a sentence", "Who are you?", "token")
    browser.run(type_token.format(token))
    browser.shows("a good one opens the page", "No agent has registered a node", "live at revision")


def main():
    bin, started = pathlib.Path(sys.argv[1]).resolve(), []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = None
        try:
            browser = Browser(folder, started)
            open_cluster(browser, Server(bin, folder, "o1", started))
            tokens = f"{folder}/tokens"
            made = [f"{bin}/setpointd", "token", "create", "--file", tokens, "--user", "jane", "--group", "setpoint:admins"]
            token = subprocess.run(made, check=True, capture_output=True, text=True).stdout.split()[-1]
            closed_cluster(browser, Server(bin, folder, "r1", started, "--access", "roles", "--token-file", tokens), token)
            policy = [it for it in browser.complaints() if "Content Security Policy" in it]
            if policy:
                sys.exit(f"test-console: the pages break their own policy: {policy}")
        finally:
            if browser:
                browser.close()
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(timeout=WAIT_S)
    print("test-console: passed")


main()
