// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"berth.dev/berth/internal/mix/savings"
)

// savingsFormat is a format of the file of the savings: what `kubectl berth savings` prints with it.
type savingsFormat struct {
	name, media string
	write       func(io.Writer, *savings.Report) error
}

var savingsFormats = []savingsFormat{
	{"csv", "text/csv; charset=utf-8", func(w io.Writer, r *savings.Report) error { return r.WriteCSV(w) }},
	{"json", "application/json", func(w io.Writer, r *savings.Report) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "    ")
		return e.Encode(r)
	}},
}

// fileLinks are the files of the savings.
func fileLinks(by savings.By) (links []link) {
	for _, f := range savingsFormats {
		at := "/savings." + f.name + "?" + url.Values{byParameter: {string(by)}}.Encode()
		links = append(links, link{Name: "Download as " + map[string]string{"csv": "CSV", "json": "JSON"}[f.name], URL: at})
	}
	return links
}

// savingsFile serves the savings as a file. Where costs are unknown there is none: its amounts would be zero.
func (c *Console) savingsFile(f savingsFormat) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := c.hub.current(r.Context(), sessionOf(r))
		if err != nil {
			return // the client is gone
		}
		if s.Reading == nil {
			http.Error(w, "the cluster was not read yet", http.StatusServiceUnavailable)
			return
		}
		if why := s.costUnknown(); why != "" {
			code := http.StatusForbidden
			if s.pricesUnknown() != "" {
				code = http.StatusServiceUnavailable
			}
			http.Error(w, why, code)
			return
		}
		by := byOf(r.URL.Query())
		report, err := s.savings(by)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", f.media)
		w.Header().Set("Content-Disposition", `attachment; filename="savings-by-`+string(by)+"."+f.name+`"`)
		if err := f.write(w, report); err != nil {
			c.log.Debug("Write the savings", "format", f.name, "err", err) // the client is gone
		}
	}
}
