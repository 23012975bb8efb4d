// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"net/http"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// mostFound is the number of pages that the palette shows.
const mostFound = 20

// found is a page that the palette leads to.
type found struct {
	Name   string `json:"name"`
	Detail string `json:"detail"`
	URL    string `json:"url"`
}

// find serves the pages whose names have all words of a text, as JSON: those of all, then those of workloads, and of other objects.
func (c *Console) find(w http.ResponseWriter, r *http.Request) {
	s, err := c.hub.current(r.Context(), sessionOf(r))
	if err != nil {
		return // the client is gone
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(findIn(s, display.Inert(r.URL.Query().Get("q"), maxFilter))); err != nil {
		c.log.Debug("Write what is found", "err", err) // the client is gone
	}
}

func findIn(s *state, text string) []found {
	f := &finder{words: strings.Fields(strings.ToLower(text)), all: []found{}}
	for _, l := range navOf("") {
		f.add(l.Name, "page", l.URL)
	}
	if s.Reading == nil {
		return f.all
	}
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		f.add(w.Namespace+"/"+w.Name, strings.TrimSpace(w.Kind+" "+w.Revision+" "+w.Role), workloadURL(w))
	}
	findObjects(f, mixList, s)
	for i := range s.Nodes {
		f.add(inert(s.Nodes[i].Name), "Node", nodeURL(s, s.Nodes[i].Name))
	}
	findObjects(f, policyList, s)
	findObjects(f, reservationList, s)
	findObjects(f, limitList, s)
	findObjects(f, recordList, s)
	findObjects(f, environmentList, s)
	for i := range s.Overview.Workloads {
		findPods(f, &s.Overview.Workloads[i])
	}
	return f.all
}

func findObjects[T client.Object](f *finder, l listOf[T], s *state) {
	for _, o := range l.of(s.Reading) {
		f.add(inert(o.GetNamespace()+"/"+o.GetName()), l.kind, l.url(o))
	}
}

// findPods finds the pods in the slots of a workload.
func findPods(f *finder, w *overview.Workload) {
	for i := range w.Slots {
		for _, pod := range w.Slots[i].PodNames() {
			f.add(inert(w.Namespace+"/"+pod), "Pod", objectURL("pods", w.Namespace, pod))
		}
	}
}

// finder collects the first pages that are found.
type finder struct {
	words []string
	all   []found
}

func (f *finder) add(name, detail, url string) {
	if len(f.all) < mostFound && hasWords(name+" "+detail, f.words) {
		f.all = append(f.all, found{name, detail, url})
	}
}

// hasWords reports whether a text has all words, which are in lower case.
func hasWords(text string, words []string) bool {
	text = strings.ToLower(text)
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
