"""A headless Chromium, driven over a pipe (its DevTools protocol): for checks of pages."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
PATIENCE_S = 120  # the machine may be busy


class Browser:
    """One process; `page` opens pages one after the other."""

    def __init__(self, folder):
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        far = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_browser, from_browser)]
        os.close(to_browser)
        os.close(from_browser)

        def place():
            os.dup2(far[0], 3)
            os.dup2(far[1], 4)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             f"--user-data-dir={folder}/browser", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder)}, pass_fds=(3, 4), preexec_fn=place)
        for fd in far:
            os.close(fd)
        self.reads, self.writes = ours_in, ours_out
        self.rest, self.number, self.events = b"", 0, []

    def close(self):
        """Ends the browser that was started here."""
        os.close(self.writes)
        os.close(self.reads)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def receive(self, end):
        while b"\0" not in self.rest:
            if not select.select([self.reads], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.reads, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        """The result of a method; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writes, data):]
        end = time.monotonic() + PATIENCE_S
        while True:
            answer = self.receive(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, path, dark=False, width=1200, height=900):
        return Page(self, path, dark, width, height)


class Page:
    """A file that is shown; what went wrong meanwhile is in `problems`."""

    def __init__(self, browser, path, dark, width, height):
        self.browser, self.url = browser, f"file://{path}"
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target,
                                    flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        self.scheme(dark)
        browser.events.clear()
        self.call("Page.navigate", url=self.url)
        self.wait("Page.loadEventFired")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def wait(self, method):
        end = time.monotonic() + PATIENCE_S
        while not any(event.get("method") == method for event in self.browser.events):
            self.browser.events.append(self.browser.receive(end))

    def value(self, script):
        """What a script of one expression gives; a promise's value once it has one."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def picture(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def problems(self):
        """Errors on the console, refused contents and requests to anywhere, since it was opened."""
        self.value("0")
        for event in self.browser.events:
            method, it = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield f"exception: {it['exceptionDetails']}"
            elif method == "Runtime.consoleAPICalled" and it["type"] in ("error", "warning"):
                yield f"console: {it['args']}"
            elif method == "Log.entryAdded" and it["entry"]["level"] in ("error", "warning"):
                yield f"log: {it['entry']['text']}"
            elif method == "Page.javascriptDialogOpening":
                yield f"dialog: {it}"
            elif method == "Network.requestWillBeSent":
                url = it["request"]["url"]
                if url.split("#")[0] != self.url and not url.startswith(("data:", "blob:")):
                    yield f"request: {url}"

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
