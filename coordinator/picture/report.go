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
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

// Report is the content of a report besides the timeline.
type Report struct {
	Model *timeline.Model
	// Story is the Story of the run, if the Model does not have it.
	Story []byte
	// Parts are the parts of the plan's text, by the number of the vertex. It may be nil.
	Parts map[int]string
}

// start unpacks the data of the report and draws them: the Shape of the run first. The data are compressed;
// browsers decompress them natively.
const start = `
async function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent.trim().replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
let parts = null;
const plan = async (vertex) => {
  parts ??= unpacked("parts");
  const { texts, of } = await parts;
  return texts[of[vertex.number] ?? 0];
};
const picture = mount(document.getElementById("picture"), await unpacked("shape"), { plan, view: "gantt" });
window.picture = picture;
document.documentElement.dataset.ready = "yes";
requestAnimationFrame(() => setTimeout(async () => {
  picture.story(await unpacked("story"));
  document.documentElement.dataset.ready = "all";
}));
`

const page = `body { margin: 1rem; font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans",
  sans-serif; color: light-dark(#1a1f26, #e4e8ed); background: light-dark(#ffffff, #15181c) }
:root { color-scheme: light dark }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere }
`

// The Content-Security-Policy names the script and the style by their hashes, so that no other content of the file
// can be executed.
var html = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Parse(`<!DOCTYPE html>
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
{{range .Data}}<script type="application/octet-stream" id="{{.ID}}">{{.Text}}</script>
{{end}}<script type="module">{{.Script}}</script>
</body>
</html>
`))
})

// Write writes the report as one self-contained HTML file, which may not fetch anything. It needs a browser of 2023
// or later.
func (r *Report) Write(w io.Writer) error {
	style, err := assets.ReadFile("assets/" + Style)
	if err != nil {
		return err
	}
	css, script := page+string(style), bundle()+start
	parts, err := r.data()
	if err != nil {
		return err
	}
	h, c := r.Model.Head, r.Model.Counts
	title := fmt.Sprintf("Run %s: %s", h.Run, h.Command)
	if h.Workspace != "" {
		title += fmt.Sprintf(" in the workspace %q", h.Workspace)
	}
	return html().Execute(w, map[string]any{
		"Title": title, "Who": h.Who,
		"Begun": "Begun " + time.UnixMilli(h.Begun).UTC().Format("2006-01-02 15:04:05 UTC"),
		"Policy": fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; "+
			"form-action 'none'", hash(script), hash(css)),
		"Style": template.CSS(css), "Script": template.JS(script), //nolint:gosec // constant content
		"Data": parts, "Counts": fmt.Sprintf("%s: %d of %d operations done, %d failed, %d skipped, %d in doubt.",
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

// data is one data element of the report.
type data struct{ ID, Text string }

// data returns the data elements in the order in which they are unpacked.
func (r *Report) data() ([]data, error) {
	texts, at, of := []string{""}, map[string]int{"": 0}, map[int]int{} // most parts of a large plan are equal
	for number, text := range r.Parts {
		i, ok := at[text]
		if !ok {
			i = len(texts)
			at[text] = i
			texts = append(texts, text)
		}
		of[number] = i
	}
	var all []data
	for _, one := range []struct {
		id    string
		write func(io.Writer) error
	}{
		{"shape", func(w io.Writer) error { return r.Model.Write(w, timeline.Shape) }},
		{"story", func(w io.Writer) error {
			if r.Story != nil {
				_, err := w.Write(r.Story)
				return err
			}
			return r.Model.Write(w, timeline.Story)
		}},
		{"parts", func(w io.Writer) error {
			return json.NewEncoder(w).Encode(map[string]any{"texts": texts, "of": of})
		}},
	} {
		text, err := packed(one.write)
		if err != nil {
			return nil, err
		}
		all = append(all, data{one.id, text})
	}
	return all, nil
}

// packed returns the compressed output of write in base64, which contains no character that is special in HTML.
func packed(write func(io.Writer) error) (string, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := write(z); err != nil {
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
