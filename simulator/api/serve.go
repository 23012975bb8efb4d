// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth.dev/berth/simulator/store"
)

// serve carries out a request.
func (s *Server) serve(r *request) (any, error) {
	if r.name == "" {
		return s.serveAll(r)
	}
	o, found := s.object(r)
	if !found {
		if r.contentType == string(types.ApplyPatchType) {
			return nil, apierrors.NewMethodNotSupported(r.GroupResource(), "apply")
		}
		return nil, apierrors.NewNotFound(r.GroupResource(), r.name)
	}
	switch {
	case r.verb == http.MethodPost && r.subresource != "":
		return s.act(r, o)
	case r.verb == http.MethodGet && r.subresource == "scale":
		return scaleOf(o), nil
	}
	switch r.verb {
	case http.MethodGet:
		return r.typed(o), nil
	case http.MethodPatch:
		return s.patch(r, o)
	case http.MethodPut:
		return s.update(r, o)
	case http.MethodDelete:
		return s.delete(r, o)
	}
	return nil, apierrors.NewMethodNotSupported(r.GroupResource(), r.verb)
}

// serveAll carries out a request without a name.
func (s *Server) serveAll(r *request) (any, error) {
	switch r.verb {
	case http.MethodGet:
		return s.list(r)
	case http.MethodPost:
		return s.create(r)
	}
	return nil, apierrors.NewMethodNotSupported(r.GroupResource(), r.verb)
}

// object returns the object of a request.
func (s *Server) object(r *request) (store.Object, bool) {
	found, exists, _ := s.Store.Of(r.Object).GetIndexer().GetByKey(strings.TrimPrefix(r.namespace+"/"+r.name, "/"))
	if !exists {
		return nil, false
	}
	return found.(store.Object), true
}

// typed is an object with its kind.
func (r *request) typed(o store.Object) store.Object {
	o = o.DeepCopyObject().(store.Object)
	o.GetObjectKind().SetGroupVersionKind(r.GroupVersion().WithKind(r.Kind))
	return o
}

func (r *request) empty() store.Object {
	return reflect.New(reflect.TypeOf(r.Object).Elem()).Interface().(store.Object)
}

type list struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []store.Object `json:"items"`
}

func (s *Server) list(r *request) (any, error) {
	bad := func(err error) (any, error) { return nil, apierrors.NewBadRequest(err.Error()) }
	selector, err := labels.Parse(r.query.Get("labelSelector"))
	if err != nil {
		return bad(err)
	}
	field, err := fields.ParseSelector(r.query.Get("fieldSelector"))
	if err != nil {
		return bad(err)
	}
	l := &list{
		TypeMeta: metav1.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.Kind + "List"},
		ListMeta: metav1.ListMeta{ResourceVersion: s.Store.Version()}, Items: []store.Object{},
	}
	l.Items = append(l.Items, s.Store.Selected(r.Object, r.namespace, func(o store.Object) bool {
		return selector.Matches(labels.Set(o.GetLabels())) && (field.Empty() || field.Matches(fieldsOf(o)))
	})...)
	return l, nil
}

// fieldsOf has the fields that a request selects by.
func fieldsOf(o store.Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, is := o.(*corev1.Pod); is {
		set["spec.nodeName"], set["status.phase"] = pod.Spec.NodeName, string(pod.Status.Phase)
	}
	return set
}

func (s *Server) create(r *request) (any, error) {
	o := r.empty()
	if err := json.Unmarshal(r.body, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o.SetNamespace(r.namespace)
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + "00000")
	}
	if r.query.Get("dryRun") != "" {
		o.SetUID("00000000-0000-4000-8000-ffffffffffff")
		return r.typed(o), nil
	}
	r.name = o.GetName()
	if _, exists := s.object(r); exists {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), r.name)
	}
	s.Store.Create(o)
	return r.typed(o), nil
}

// act carries out what is posted to a subresource.
func (s *Server) act(r *request, o store.Object) (any, error) {
	pod, is := o.(*corev1.Pod)
	if !is {
		return nil, apierrors.NewNotFound(r.GroupResource(), r.name+"/"+r.subresource)
	}
	var err error
	switch r.subresource {
	case "binding":
		binding := &corev1.Binding{}
		if err = json.Unmarshal(r.body, binding); err == nil {
			err = s.Cluster.Bind(pod, binding)
		}
	case "eviction":
		eviction := &policyv1.Eviction{}
		if err = json.Unmarshal(r.body, eviction); err == nil {
			err = s.Cluster.Evict(pod, eviction)
		}
	default:
		err = apierrors.NewNotFound(r.GroupResource(), r.name+"/"+r.subresource)
	}
	if err != nil {
		return nil, err
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil
}

func (s *Server) patch(r *request, o store.Object) (any, error) {
	before, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch types.PatchType(r.contentType) {
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, r.body, r.Object)
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, r.body)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(r.body); err == nil {
			after, err = patch.Apply(before)
		}
	default:
		return nil, apierrors.NewMethodNotSupported(r.GroupResource(), "patch with "+r.contentType)
	}
	if err != nil {
		return nil, apierrors.NewInvalid(r.GroupVersion().WithKind(r.Kind).GroupKind(), r.name, nil)
	}
	return s.replace(r, o, after)
}

func (s *Server) update(r *request, o store.Object) (any, error) { return s.replace(r, o, r.body) }

// replace stores a new version of an object. One that was read before another change is a conflict.
func (s *Server) replace(r *request, before store.Object, text []byte) (any, error) {
	after := r.empty()
	if err := json.Unmarshal(text, after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if v := after.GetResourceVersion(); v != "" && v != before.GetResourceVersion() ||
		after.GetUID() != "" && after.GetUID() != before.GetUID() {
		return nil, apierrors.NewConflict(r.GroupResource(), r.name, errChanged)
	}
	if pod, is := after.(*corev1.Pod); is && r.subresource == "status" { // that has no other part, and pods share their specs
		status := pod.Status
		*pod = *before.(*corev1.Pod)
		pod.Status = status
	}
	if r.query.Get("dryRun") == "" {
		s.Store.Update(after)
	}
	return r.typed(after), nil
}

func (s *Server) delete(r *request, o store.Object) (any, error) {
	options := metav1.DeleteOptions{}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != o.GetUID() {
		return nil, apierrors.NewConflict(r.GroupResource(), r.name, errChanged)
	}
	if err := s.Cluster.Delete(o); err != nil {
		return nil, err
	}
	return r.typed(o), nil
}

var errChanged = errors.New("the object has been modified")

func hasScale(o store.Object) bool { return scaleOf(o) != nil }

// scaleOf is the scale of a controller, nil for another kind.
func scaleOf(o store.Object) *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		},
	}
	var selector *metav1.LabelSelector
	var replicas *int32
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		selector, replicas, scale.Status.Replicas = o.Spec.Selector, o.Spec.Replicas, o.Status.Replicas
	case *appsv1.Deployment:
		selector, replicas, scale.Status.Replicas = o.Spec.Selector, o.Spec.Replicas, o.Status.Replicas
	case *appsv1.StatefulSet:
		selector, replicas, scale.Status.Replicas = o.Spec.Selector, o.Spec.Replicas, o.Status.Replicas
	default:
		return nil
	}
	if replicas != nil {
		scale.Spec.Replicas = *replicas
	}
	scale.Status.Selector = metav1.FormatLabelSelector(selector)
	return scale
}
