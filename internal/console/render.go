// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzhttp"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

//go:embed templates static
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"plural": display.Count,
	"inert":  inert,
	"title":  func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"int":    func(n int32) int { return int(n) },
	"of":     func(actual, desired overview.Maybe[int]) string { return actual.String() + "/" + desired.String() },
	"spot": func(s overview.Maybe[overview.Split]) overview.Maybe[int] {
		return overview.Part(s, func(s overview.Split) int { return s.Spot })
	},
	"onDemand": func(s overview.Maybe[overview.Split]) overview.Maybe[int] {
		return overview.Part(s, func(s overview.Split) int { return s.OnDemand })
	},
	"unknownType": func(s overview.Maybe[overview.Split]) int {
		split, _ := s.Get()
		return split.Unknown
	},
}).ParseFS(files, "templates/*.html"))

// maxText bounds a text of others: of an object, or of an error, which can contain whatever a server responds.
const maxText = 512

func inert(s string) string { return display.Inert(s, maxText) }

// render executes a template. The templates are part of the program, and a test executes each: an error is a defect.
func render(name string, v any) template.HTML {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		panic(err)
	}
	return template.HTML(b.String()) //nolint:gosec // html/template escapes
}

// link is one of the links of all pages.
type link struct {
	Name, URL string
	// Key is the letter that leads here after g.
	Key string
	// Current is "page" for the page itself, and "true" for a page below it.
	Current string
}

// sections are the pages of all, by the paths of those below them.
var sections = []struct{ name, url, below, key string }{
	{"Overview", "/", "/workloads/", "o"},
	{"Overview", "/", "/pods/", "o"},
	{"Overview", "/", "/timeline", "o"},
	{"Mixes", "/mixes", "/mixes/", "m"},
	{"Savings", "/savings", "/savings/", "s"},
	{"Nodes", "/nodes", "/nodes/", "n"},
	{"Nodes", "/nodes", "/domain", "n"},
	{"Policies", "/policies", "/policies/", "p"},
	{"Reservations", "/reservations", "/reservations/", "v"},
	{"Limits", "/limits", "/limits/", "l"},
	{"Records", "/records", "/records/", "r"},
	{"Environments", "/environments", "/environments/", "e"},
}

// navOf are the links of a page at a path.
func navOf(path string) (nav []link) {
	for _, s := range sections {
		current := ""
		switch {
		case path == s.url:
			current = "page"
		case strings.HasPrefix(path, s.below):
			current = "true"
		}
		if n := len(nav) - 1; n >= 0 && nav[n].URL == s.url {
			nav[n].Current = cmp.Or(nav[n].Current, current)
			continue
		}
		nav = append(nav, link{s.name, s.url, s.key, current})
	}
	return nav
}

// write writes a page.
func (c *Console) write(w http.ResponseWriter, r *http.Request, status int, p *page, at *url.URL) {
	stream := url.Values{"page": {at.RequestURI()}, "has": {strconv.FormatUint(p.hash(), 36)}, "parts": p.following()}
	v := struct {
		Title, Stream string
		Nav           []link
		Account       *Account
		Parts         []*part
	}{p.title, "/stream?" + stream.Encode(), navOf(at.Path), accountOf(r), p.parts}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := templates.ExecuteTemplate(w, "page", v); err != nil {
		c.log.Debug("Write a page", "path", at.Path, "err", err) // the client is gone
	}
}

// staticFiles serves the style and the script.
func staticFiles() http.Handler { return http.FileServerFS(files) }

// compressed compresses pages. Events are small, and are not held back.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.ExceptContentTypes([]string{"text/event-stream"}))
	if err != nil {
		panic(err) // constants
	}
	return wrap(next)
}
