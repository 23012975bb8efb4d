// SPDX-License-Identifier: Apache-2.0

// Package api answers the requests of clients about a simulated cluster. It is as much of an API server as the scheduler and the
// controllers of Berth use, in the process of both: what has no answer here fails as it would with an API server that does not serve it.
package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"berth.dev/berth/simulator/store"
)

// Cluster does what is more than to write an object.
type Cluster interface {
	// Bind binds a pod to a node. The annotations and labels of the Binding are added to those of the pod.
	Bind(pod *corev1.Pod, binding *corev1.Binding) error
	// Evict evicts a pod, or returns why its PodDisruptionBudgets forbid it.
	Evict(pod *corev1.Pod, eviction *policyv1.Eviction) error
	// Delete deletes an object.
	Delete(o store.Object) error
}

// Server answers requests one at a time.
type Server struct {
	Store   *store.Store
	Cluster Cluster

	mu sync.Mutex
	// refused counts the requests for what is not served.
	refused map[string]int
}

// Refused returns how many requests there were for what is not served, by method and path.
func (s *Server) Refused() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

// Config returns what clients of the cluster are created with. Nothing slows them down: requests take no time.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: "http://simulation.invalid", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// request is a request to one resource.
type request struct {
	*store.Served
	verb                         string
	namespace, name, subresource string
	query                        url.Values
	contentType                  string
	body                         []byte
}

// RoundTrip answers a request. A watch has no event, and ends with the request: who sees changes has the informers of the store.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.URL.Query().Get("watch") == "true" {
		return respond(r, http.StatusOK, &silence{r}), nil
	}
	s.mu.Lock()
	answer, err := s.answer(r, body)
	s.mu.Unlock()
	code := http.StatusOK
	if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	if err != nil {
		status := apierrors.APIStatus(nil)
		if failed, is := err.(apierrors.APIStatus); is {
			status = failed
		} else {
			status = apierrors.NewInternalError(err)
		}
		of := status.Status()
		of.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer, code = &of, int(of.Code)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return respond(r, code, io.NopCloser(bytes.NewReader(text))), nil
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// silence is the body of a watch.
type silence struct{ request *http.Request }

func (s *silence) Read([]byte) (int, error) {
	<-s.request.Context().Done()
	return 0, s.request.Context().Err()
}

func (*silence) Close() error { return nil }

// answer answers a request, whose path is that of an API server.
func (s *Server) answer(r *http.Request, body []byte) (any, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if answer := discovery(parts); answer != nil {
		return answer, nil
	}
	of, rest := versionOf(parts)
	if len(rest) == 0 {
		return nil, s.notServed(r)
	}
	req := request{query: r.URL.Query(), contentType: r.Header.Get("Content-Type"), body: body, verb: r.Method}
	if rest[0] == "namespaces" && len(rest) > 2 {
		req.namespace, rest = rest[1], rest[2:]
	}
	i := slices.IndexFunc(store.Kinds, func(k store.Served) bool { return k.GroupVersion() == of && k.Resource == rest[0] })
	switch {
	case i < 0 && rest[0] == "selfsubjectaccessreviews":
		return allowed(body)
	case i < 0:
		return nil, s.notServed(r)
	}
	req.Served = &store.Kinds[i]
	rest = append(rest, "", "")
	req.name, req.subresource = rest[1], rest[2]
	return s.serve(&req)
}

// versionOf returns the group and version of a path, and what follows, nothing for a path without a resource.
func versionOf(parts []string) (of schema.GroupVersion, rest []string) {
	switch {
	case parts[0] == "api" && len(parts) > 2:
		return schema.GroupVersion{Version: parts[1]}, parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	}
	return of, nil
}

func (s *Server) notServed(r *http.Request) error {
	if s.refused == nil {
		s.refused = map[string]int{}
	}
	s.refused[r.Method+" "+r.URL.Path]++
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("the simulation does not serve %s %s", r.Method, r.URL.Path),
	}}
}

// allowed answers a SelfSubjectAccessReview: a simulation has no rules of access.
func allowed(body []byte) (any, error) {
	review := map[string]any{}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	review["status"] = map[string]any{"allowed": true}
	return review, nil
}
