package picture

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/millipede-iac/millipede/view/timeline"
)

// Report is what a report tells besides the timeline.
type Report struct {
	Model *timeline.Model
	// Parts are what the plan says of a vertex, as text, by its number. It may be nil.
	Parts map[int]string
}

// start unpacks what the report holds, and draws it. The data are compressed: browsers unpack them by themselves.
const start = `
const packed = document.getElementById("data").textContent.trim().replaceAll("-", "+").replaceAll("_", "/");
const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const report = JSON.parse(await new Response(stream).text());
const plan = (vertex) => report.parts[vertex.number] || "";
const picture = mount(document.getElementById("picture"), report.model, { plan, view: "gantt" });
window.picture = picture;
document.documentElement.dataset.ready = "yes";
`

const page = `body { margin: 1rem; font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans",
  sans-serif; color: light-dark(#1a1f26, #e4e8ed); background: light-dark(#ffffff, #15181c) }
:root { color-scheme: light dark }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere }
`

// The script and the style are named by their hashes, so that nothing else in the file, whatever it holds, is either.
var html = template.Must(template.New("report").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{.Policy}}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{{.Title}}</title>
<style>{{.Style}}</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p>{{.Begun}}{{with .Who}}, by {{.}}{{end}}</p>
<div id="picture"><noscript><p>{{.Counts}}</p>
<ul>{{range .Failures}}<li>{{.}}</li>{{end}}</ul>
<p>Graph and Gantt need JavaScript.</p></noscript></div>
</main>
<script type="application/octet-stream" id="data">{{.Data}}</script>
<script type="module">{{.Script}}</script>
</body>
</html>
`))

// Write writes the report as one HTML file that needs nothing else, and may fetch nothing. Browsers since 2023 show it.
func (r *Report) Write(w io.Writer) error {
	style, err := assets.ReadFile("assets/" + Style)
	if err != nil {
		return err
	}
	css, script := page+string(style), bundle()+start
	data, err := r.packed()
	if err != nil {
		return err
	}
	h, c := r.Model.Head, r.Model.Counts
	title := fmt.Sprintf("Run %s: %s", h.Run, h.Command)
	if h.Workspace != "" {
		title += fmt.Sprintf(" in the workspace %q", h.Workspace)
	}
	return html.Execute(w, map[string]any{
		"Title": title, "Who": h.Who,
		"Begun": "Begun " + time.UnixMilli(h.Begun).UTC().Format("2006-01-02 15:04:05 UTC"),
		"Policy": fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; "+
			"form-action 'none'", hash(script), hash(css)),
		"Style": template.CSS(css), "Script": template.JS(script), //nolint:gosec // they are our own
		"Data": data, "Counts": fmt.Sprintf("%s: %d of %d operations done, %d failed, %d skipped, %d in doubt.",
			h.Outcome, c.Done, c.Total, c.Failed, c.Skipped, c.Doubt),
		"Failures": r.failures(),
	})
}

func (r *Report) failures() (out []string) {
	for _, v := range r.Model.Vertices {
		switch v.Status {
		case timeline.Failed:
			out = append(out, v.Address+": "+v.Failure)
		case timeline.Doubt:
			out = append(out, v.Address+": "+v.Doubtful)
		}
	}
	return out
}

// packed is the data of the report: JSON, compressed, in the base64 of which no letter means anything in HTML.
func (r *Report) packed() (string, error) {
	parts := r.Parts
	if parts == nil {
		parts = map[int]string{}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	err := json.NewEncoder(z).Encode(map[string]any{"model": r.Model, "parts": parts})
	if err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}
