// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// world is an API server, as far as the service uses it.
type world struct {
	mu           sync.Mutex
	version      int
	environments map[string]*environment
	secrets      map[string]*corev1.Secret
	pods         []corev1.Pod
	writes       []string
	// before is called before each request, and may answer it.
	before func(w http.ResponseWriter, r *http.Request) bool
	// log serves logs, metrics what is used.
	log     func(w http.ResponseWriter, r *http.Request, pod string)
	config  *rest.Config
	metrics string

	denied map[string]bool // verbs that no one may use
	asked  []server.Access
	audit  []string
	server *httptest.Server
}

func newWorld(t testing.TB) (*world, *service) {
	w := &world{environments: map[string]*environment{}, secrets: map[string]*corev1.Secret{}, denied: map[string]bool{}}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	w.server = s
	// A transport of its own, whose connections end with the test.
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	w.config = &rest.Config{Host: s.URL, QPS: -1, Transport: transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c, err := newService(w, w.config, Options{
		TokenKey: testKey,
		Log: funcr.New(func(_, args string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.audit = append(w.audit, args)
		}, funcr.Options{}),
	})
	require.NoError(t, err)
	c.caller = func(context.Context) string { return "alice" }
	c.poll = 5 * time.Millisecond
	c.lists = newSharedLists(c.poll)
	return w, c
}

// Authorize lets everybody do everything but what is denied.
func (w *world) Authorize(_ context.Context, a server.Access) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, a)
	if w.denied[a.Verb] {
		return server.Refuse(7, "no")
	}
	return nil
}

// with changes the world under its lock.
func (w *world) with(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	before := w.before
	w.mu.Unlock()
	if before != nil && before(rw, r) {
		return
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/log"):
		w.log(rw, r, path[len(path)-2])
	case slices.Contains(path, "tokenreviews"):
		answer(rw, authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
			Status:   authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "alice"}},
		}, nil)
	case slices.Contains(path, "subjectaccessreviews"):
		answer(rw, authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}, nil)
	case strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/"):
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.metrics == "" {
			answer(rw, nil, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, true))
			return
		}
		_, _ = rw.Write([]byte(w.metrics))
	case slices.Contains(path, "pods"):
		w.mu.Lock()
		defer w.mu.Unlock()
		_, id, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		list := corev1.PodList{}
		for _, p := range w.pods {
			if p.Namespace == path[3] && p.Labels[v1alpha1.EnvironmentLabel] == id {
				list.Items = append(list.Items, p)
			}
		}
		answer(rw, list, nil)
	case slices.Contains(path, "secrets"):
		serve(w, rw, r, "secrets", path, w.secrets, func(_, _ *corev1.Secret) {})
	default:
		serve(w, rw, r, plural, path, w.environments, func(before, after *environment) {
			if before == nil {
				after.Generation = 1
				return
			}
			after.Generation, after.Status = before.Generation, before.Status
			if !sameSpec(&before.Spec, &after.Spec) {
				after.Generation++
			}
		})
	}
}

// serve reads and writes objects of a kind. Prepare is what the API server makes of one that is written.
func serve[T any, O interface {
	*T
	metav1.Object
}](w *world, rw http.ResponseWriter, r *http.Request, kind string, path []string, objects map[string]O, prepare func(before, after O)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := schema.GroupResource{Group: "", Resource: kind}
	at := slices.Index(path, kind)
	namespace, name := "", ""
	if i := slices.Index(path, "namespaces"); i >= 0 {
		namespace = path[i+1]
	}
	if at+1 < len(path) {
		name = path[at+1]
	}
	key := namespace + "/" + name
	have := objects[key]
	if have == nil && r.Method != http.MethodPost && name != "" {
		answer(rw, nil, apierrors.NewNotFound(resource, name))
		return
	}
	switch r.Method {
	case http.MethodGet:
		if name != "" {
			answer(rw, have, nil)
			return
		}
		var items []O
		for _, o := range objects {
			if namespace == "" || o.GetNamespace() == namespace {
				items = append(items, o)
			}
		}
		answer(rw, map[string]any{"items": items}, nil)
	case http.MethodPost, http.MethodPut:
		o := O(new(T))
		if err := json.NewDecoder(r.Body).Decode(o); err != nil {
			answer(rw, nil, apierrors.NewBadRequest(err.Error()))
			return
		}
		key = namespace + "/" + o.GetName()
		have = objects[key]
		switch {
		case r.Method == http.MethodPost && have != nil:
			answer(rw, nil, apierrors.NewAlreadyExists(resource, o.GetName()))
			return
		case r.Method == http.MethodPut && have.GetResourceVersion() != o.GetResourceVersion():
			answer(rw, nil, apierrors.NewConflict(resource, o.GetName(), fmt.Errorf("old")))
			return
		}
		w.version++
		if have == nil {
			o.SetUID(types.UID(fmt.Sprint("uid-", w.version)))
			o.SetCreationTimestamp(metav1.Now())
		}
		prepare(have, o)
		o.SetResourceVersion(fmt.Sprint(w.version))
		if r.URL.Query().Get("dryRun") == "" {
			objects[key] = o
			w.writes = append(w.writes, r.Method+" "+kind)
		}
		answer(rw, o, nil)
	case http.MethodDelete:
		delete(objects, key)
		w.writes = append(w.writes, r.Method+" "+kind)
		answer(rw, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil)
	}
}

func answer(rw http.ResponseWriter, value any, err *apierrors.StatusError) {
	rw.Header().Set("Content-Type", "application/json")
	if err != nil {
		rw.WriteHeader(int(err.ErrStatus.Code))
		err.ErrStatus.Kind, err.ErrStatus.APIVersion = "Status", "v1"
		value = err.ErrStatus
	}
	_ = json.NewEncoder(rw).Encode(value)
}

// fails answers what matches with an error.
func fails(method, part string, err *apierrors.StatusError) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.Contains(r.URL.Path, part) {
			return false
		}
		answer(w, nil, err)
		return true
	}
}

// runs puts an environment into a phase that the controller has come to.
func (w *world) runs(id string, phase v1alpha1.EnvironmentPhase) {
	w.with(func() {
		e := w.environments["default/"+id]
		e.Status.Phase, e.Status.ObservedGeneration, e.Status.Namespace = phase, e.Generation, "run"
	})
}
