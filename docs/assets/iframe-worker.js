// Search runs in a worker, and a browser starts none for a page that was opened as a file: a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.inside = this.frame.contentWindow
      window.addEventListener("message", event => {
        if (event.source !== this.inside) return
        const answer = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(answer)
        if (this.onmessage) this.onmessage(answer)
      })
      this.inside.document.open()
      this.inside.document.write(`<script>
        var postMessage = data => parent.postMessage(data, "*")
        var importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(done => {
          var script = document.createElement("script")
          script.src = url
          script.onload = done
          document.body.append(script)
        })), Promise.resolve())
      </script><body><script src="${url}"></script></body>`)
      this.inside.document.close()
      this.ready = new Promise(resolve => { this.inside.onload = resolve })
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
