// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// MaxResponse is more than the length of any response: MaxPerPod records, whose characters JSON can write as six each.
const MaxResponse = 4 << 20

// NoRecord begins the response, with status 404, for a pod without a record.
const NoRecord = "no scheduling attempt"

// List is a response of the server.
type List struct {
	// Items are the records of a pod, newest first.
	Items []*Record `json:"items"`
}

// Path returns the path under which a Handler serves the records of a pod.
func Path(namespace, pod string) string {
	return "/decisions/v1/namespaces/" + namespace + "/pods/" + pod
}

// Handler serves the records of a pod to users who may get the pod.
func Handler(store *Store, authenticate authenticator.Request, authorize authorizer.UnconditionalAuthorizer) http.Handler {
	s := &server{store: store, authenticate: authenticate, authorize: authorize}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path("{namespace}", "{pod}"), s.get)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

type server struct {
	store        *Store
	authenticate authenticator.Request
	authorize    authorizer.UnconditionalAuthorizer
}

// get reads the store last: a caller without the right to get the pod cannot find out whether it has records.
func (s *server) get(w http.ResponseWriter, r *http.Request) {
	namespace, pod := r.PathValue("namespace"), r.PathValue("pod")
	if len(namespace) > maxName || len(pod) > maxName { // sent to the API server otherwise
		http.Error(w, "the name of the namespace or of the pod is too long", http.StatusBadRequest)
		return
	}
	u, err := s.user(r)
	if u == nil {
		if err != nil {
			klog.FromContext(r.Context()).V(2).Info("Request for decisions is not authenticated", "err", err)
		}
		http.Error(w, "missing or invalid credentials: send the token or the client certificate of a user of the cluster",
			http.StatusUnauthorized)
		return
	}
	if status, message := s.mayGet(r, u, namespace, pod); status != http.StatusOK {
		http.Error(w, message, status)
		return
	}
	records := s.store.Of(namespace, pod)
	if len(records) == 0 {
		http.Error(w, fmt.Sprintf("%s of pod %s/%s is recorded", NoRecord, namespace, pod), http.StatusNotFound)
		return
	}
	body, err := json.Marshal(List{Items: records})
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Encode decisions", "namespace", namespace, "pod", pod)
		http.Error(w, "the records cannot be encoded: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // fails if the client is gone
}

// user returns the authenticated user of a request, nil if there is none. The authenticator of a scheduler accepts requests
// without credentials as those of an anonymous user.
func (s *server) user(r *http.Request) (user.Info, error) {
	response, ok, err := s.authenticate.AuthenticateRequest(r)
	if err != nil || !ok || response == nil || response.User == nil || response.User.GetName() == user.Anonymous {
		return nil, err
	}
	return response.User, nil
}

// mayGet returns 200 if a user may get a pod, or else a status and a message.
func (s *server) mayGet(r *http.Request, u user.Info, namespace, pod string) (status int, message string) {
	decision, reason, err := s.authorize.Authorize(r.Context(), authorizer.AttributesRecord{
		User: u, Verb: "get", Namespace: namespace, APIVersion: "v1", Resource: "pods", Name: pod, ResourceRequest: true, Path: r.URL.Path,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return http.StatusOK, ""
	case err != nil:
		klog.FromContext(r.Context()).Error(err, "Authorize a request for decisions", "user", u.GetName(), "namespace", namespace)
		return http.StatusInternalServerError, "the API server could not authorize the request, try again later"
	}
	message = fmt.Sprintf("user %q cannot get pod %q in namespace %q", u.GetName(), pod, namespace)
	if reason != "" {
		message += ": " + reason
	}
	return http.StatusForbidden, message
}
