// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

const (
	listPath = "/namespaces/{namespace}/resource-limits"
	onePath  = listPath + "/{name}"
)

// body is a limit as REST has it. In a request, createdAt and deletedAt have no effect, so that an answer can be sent back.
type body[A any] struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels,omitempty"`
	Limits      *limitsBody[A]    `json:"limits"`
	CreatedAt   string            `json:"createdAt,omitempty"`
	DeletedAt   string            `json:"deletedAt,omitempty"`
}

type limitsBody[A any] struct {
	CPU              string                `json:"cpu,omitempty"`
	Memory           string                `json:"memory,omitempty"`
	CPULimit         string                `json:"cpuLimit,omitempty"`
	MemoryLimit      string                `json:"memoryLimit,omitempty"`
	EphemeralStorage string                `json:"ephemeralStorage,omitempty"`
	Volumes          map[string]volumeBody `json:"volumes,omitempty"`
	NodeSelector     map[string]string     `json:"nodeSelector,omitempty"`
	// NodeAffinity has no nodeAffinity around it in an answer. In a request it may.
	NodeAffinity A `json:"nodeAffinity,omitempty"`
}

type volumeBody struct {
	Size         string  `json:"size"`
	StorageClass *string `json:"storageClass,omitempty"`
}

type (
	request  = body[json.RawMessage]
	response = body[*v1alpha1.NodeAffinity]
)

// fromBody reads a limit that is to be written. The name in a path, if there is one, and that in the body must agree.
func fromBody(b *request, inPath string) (*Limit, error) {
	switch {
	case b.Limits == nil:
		return nil, server.InvalidField("spec", "is missing")
	case inPath != "" && b.Name == "":
		b.Name = inPath
	case inPath != "" && b.Name != inPath:
		return nil, server.InvalidField("metadata.name", fmt.Sprintf("is %q, and %q in the path", b.Name, inPath))
	}
	in := b.Limits
	l := &Limit{Name: b.Name, Labels: b.Labels, Spec: spec{
		Description: b.Description,
		CPU:         text(in.CPU), Memory: text(in.Memory), CPULimit: text(in.CPULimit), MemoryLimit: text(in.MemoryLimit),
		EphemeralStorage: text(in.EphemeralStorage), NodeSelector: in.NodeSelector,
	}}
	for name, v := range in.Volumes {
		if l.Spec.Volumes == nil {
			l.Spec.Volumes = map[string]volume{}
		}
		l.Spec.Volumes[name] = volume{Size: text(v.Size), StorageClass: v.StorageClass}
	}
	if len(in.NodeAffinity) == 0 || string(in.NodeAffinity) == "null" {
		return l, nil
	}
	var err error
	l.Spec.NodeAffinity, err = parseAffinity(in.NodeAffinity)
	return l, err
}

func toBody(l *Limit) *response {
	s := &l.Spec
	limits := &limitsBody[*v1alpha1.NodeAffinity]{
		CPU: string(s.CPU), Memory: string(s.Memory), CPULimit: string(s.CPULimit), MemoryLimit: string(s.MemoryLimit),
		EphemeralStorage: string(s.EphemeralStorage), NodeSelector: s.NodeSelector, NodeAffinity: s.NodeAffinity,
	}
	for name, v := range s.Volumes {
		if limits.Volumes == nil {
			limits.Volumes = map[string]volumeBody{}
		}
		limits.Volumes[name] = volumeBody{Size: string(v.Size), StorageClass: v.StorageClass}
	}
	return &response{
		Name: l.Name, Description: s.Description, Labels: l.Labels, Limits: limits, CreatedAt: l.Created, DeletedAt: l.Deleted,
	}
}

// web is the REST side.
type web struct{ service *service }

func (f *web) routes(s *server.Server) {
	s.Route(listPath, map[string]server.Handler{http.MethodGet: f.list, http.MethodPost: f.create})
	s.Route(onePath, map[string]server.Handler{http.MethodGet: f.get, http.MethodPut: f.update, http.MethodDelete: f.remove})
}

func (f *web) create(w http.ResponseWriter, r *http.Request) error {
	l, err := read(r, "")
	if err != nil {
		return err
	}
	namespace := r.PathValue("namespace")
	if l, err = f.service.create(r.Context(), namespace, l); err != nil {
		return server.Rename(err, restField)
	}
	w.Header().Set("Location", "/namespaces/"+url.PathEscape(namespace)+"/resource-limits/"+url.PathEscape(l.Name))
	return server.WriteJSON(w, http.StatusCreated, toBody(l))
}

func (f *web) get(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseQuery(r.URL.RawQuery); err != nil {
		return err
	}
	l, err := f.service.get(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		return server.Rename(err, restField)
	}
	return server.WriteJSON(w, http.StatusOK, toBody(l))
}

func (f *web) update(w http.ResponseWriter, r *http.Request) error {
	l, err := read(r, r.PathValue("name"))
	if err != nil {
		return err
	}
	if l, err = f.service.update(r.Context(), r.PathValue("namespace"), l); err != nil {
		return server.Rename(err, restField)
	}
	return server.WriteJSON(w, http.StatusOK, toBody(l))
}

func (f *web) remove(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r.URL.RawQuery, "force")
	if err != nil {
		return err
	}
	force := false
	if text, given := q["force"]; given {
		if force, err = strconv.ParseBool(text); err != nil {
			return server.InvalidField("force", fmt.Sprintf("is %q, and must be true or false", text))
		}
	}
	message, err := f.service.remove(r.Context(), r.PathValue("namespace"), r.PathValue("name"), force)
	if err != nil {
		return server.Rename(err, restField)
	}
	return server.WriteJSON(w, http.StatusOK, struct {
		Success bool   `json:"success"`
		Message string `json:"message"`
	}{true, message})
}

func (f *web) list(w http.ResponseWriter, r *http.Request) error {
	q, err := parseList(r.URL.RawQuery)
	if err != nil {
		return err
	}
	p, err := f.service.list(r.Context(), r.PathValue("namespace"), q.selector, q.first, q.after)
	if err != nil {
		return server.Rename(err, restField)
	}
	out := struct {
		Data        []*response `json:"data"`
		EndCursor   string      `json:"endCursor,omitempty"`
		HasNextPage bool        `json:"hasNextPage"`
	}{Data: []*response{}, EndCursor: p.next, HasNextPage: p.next != ""}
	for _, l := range p.limits {
		out.Data = append(out.Data, toBody(l))
	}
	return server.WriteJSON(w, http.StatusOK, out)
}

// read decodes the limit in a request.
func read(r *http.Request, inPath string) (*Limit, error) {
	if _, err := parseQuery(r.URL.RawQuery); err != nil {
		return nil, err
	}
	var b request
	if err := server.ReadJSON(r, &b); err != nil {
		return nil, err
	}
	l, err := fromBody(&b, inPath)
	if err != nil {
		return nil, server.Rename(err, restField)
	}
	return l, nil
}

func oneOf(known []string) string {
	if len(known) == 0 {
		return "absent: this request has none"
	}
	return "one of " + strings.Join(known, ", ")
}

// listQuery is what the query of a list requests.
type listQuery struct {
	selector labels.Selector
	first    *int32
	after    string
}

func parseList(rawQuery string) (*listQuery, error) {
	q, err := parseQuery(rawQuery, "first", "after", "labelSelector")
	if err != nil {
		return nil, err
	}
	out := &listQuery{after: q["after"]}
	if out.selector, err = labels.Parse(q["labelSelector"]); err != nil {
		return nil, server.InvalidField("labelSelector", err.Error())
	}
	if text, given := q["first"]; given {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, server.InvalidField("first", fmt.Sprintf("is %q, and must be a number", text))
		}
		out.first = new(int32(n))
	}
	return out, nil
}

// parseQuery reads a query in which each of the known parameters may occur once.
func parseQuery(raw string, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, server.InvalidField("query", "is malformed")
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, key):
			return nil, server.InvalidField(cmp.Or(key, "query"), fmt.Sprintf("is an unknown parameter, must be %s", oneOf(known)))
		case len(values[key]) > 1:
			return nil, server.InvalidField(key, "is given more than once")
		}
		out[key] = values[key][0]
	}
	return out, nil
}
