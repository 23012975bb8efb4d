// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
)

// What a form of an object does: it shows what the fields or the YAML would change, or writes what was shown.
const (
	reviewForm = "form"
	reviewYAML = "yaml"
	applyYAML  = "apply"
)

// Pages with a form.
const (
	newForm    = "new"
	editForm   = "edit"
	deleteForm = "delete"
)

// maxForm bounds what a browser sends.
const maxForm = 256 << 10

// errChanged is why nothing is written of an object that is another one than the form shows.
var errChanged = errors.New("it was changed since this form was opened: what you wrote is kept here. Open the page again to see the change")

// edits registers the pages that change objects of a kind.
func (c *Console) edits(mux *http.ServeMux, k *editedKind) {
	mux.HandleFunc("GET /"+k.id+"/new", c.page)
	mux.HandleFunc("GET /"+k.id+"/{namespace}/{name}/edit", func(w http.ResponseWriter, r *http.Request) { c.editObject(w, r, k) })
	mux.HandleFunc("GET /"+k.id+"/{namespace}/{name}/delete", c.page)
	write := func(w http.ResponseWriter, r *http.Request) { c.writeObject(w, r, k) }
	mux.HandleFunc("POST /"+k.id, write)
	mux.HandleFunc("POST /"+k.id+"/{namespace}/{name}", write)
	mux.HandleFunc("POST /"+k.id+"/{namespace}/{name}/delete", func(w http.ResponseWriter, r *http.Request) { c.removeObject(w, r, k) })
}

// newObjectPage is the page of a new object of a kind.
func newObjectPage(id string) func([]string, url.Values, *state) (*page, error) {
	return func(path []string, _ url.Values, s *state) (*page, error) {
		if path[0] != newForm || !s.writable {
			return nil, errNoPage
		}
		k := editedKinds[id]
		return objectFormOf(k, k.newObject("", "")).page(s), nil
	}
}

// objectChangePage is a page that changes an object. That of its form is what the stream has of it: nothing but the status.
func objectChangePage[T client.Object](l listOf[T]) func([]string, url.Values, *state) (*page, error) {
	return func(path []string, _ url.Values, s *state) (*page, error) {
		if !s.writable {
			return nil, errNoPage
		}
		switch path[2] {
		case editForm:
			return &page{title: "Edit", parts: status(s)}, nil
		case deleteForm:
			o, err := l.find(path, s)
			if err != nil {
				return nil, err
			}
			return objectDeletionPage(editedKinds[l.id], o, s, ""), nil
		}
		return nil, errNoPage
	}
}

// page is the page of a form.
func (f *objectForm) page(s *state) *page {
	v := struct {
		*objectForm
		Action, Cancel, Noun string
	}{f, "/" + f.kind.id, "/" + f.kind.id, f.kind.noun}
	title := "New " + f.kind.noun
	if f.Version != "" {
		v.Action = objectURL(f.kind.id, f.Namespace, f.Name)
		v.Cancel = v.Action
		title = "Edit " + inert(f.Namespace+"/"+f.Name)
	}
	return &page{title: title, parts: append(status(s), &part{id: "form", before: render("object-form", v), fixed: true})}
}

func objectDeletionPage(k *editedKind, o client.Object, s *state, problem string) *page {
	v := struct{ Kind, Name, Namespace, URL, UID, Problem, Follows string }{
		k.kind, inert(o.GetName()), inert(o.GetNamespace()), objectURL(k.id, o.GetNamespace(), o.GetName()), string(o.GetUID()),
		inert(problem), "Pods that run stay where they are.",
	}
	if k.deleted != nil {
		v.Follows = k.deleted(o)
	}
	return &page{title: "Delete " + v.Namespace + "/" + v.Name, parts: append(status(s),
		&part{id: "form", before: render("object-delete", v), fixed: true})}
}

// editObject serves the form of the object of the path, as the user of the request reads it.
func (c *Console) editObject(w http.ResponseWriter, r *http.Request, k *editedKind) {
	if c.clientOf == nil {
		c.notFound(w, r)
		return
	}
	f := &objectForm{kind: k, Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), Version: "unread"}
	status := http.StatusOK
	reader, err := c.clientOf(r)
	if err == nil {
		o := k.newObject(f.Namespace, f.Name)
		if err = reader.Get(r.Context(), client.ObjectKeyFromObject(o), o); err == nil {
			f = objectFormOf(k, o)
			if undo := r.URL.Query().Get(undoParameter); undo != "" {
				f.propose(o, undo)
			}
		}
	}
	if err != nil {
		status = http.StatusUnprocessableEntity
		if apierrors.IsNotFound(err) {
			status = http.StatusNotFound
		}
		f.problem("", err.Error())
	}
	c.again(w, r, status, objectURL(k.id, f.Namespace, f.Name)+"/"+editForm, f.page)
}

// writeObject creates an object, or changes that of the path, or shows what that would do.
func (c *Console) writeObject(w http.ResponseWriter, r *http.Request, k *editedKind) {
	// A browser sends most characters of YAML as three. The YAML has a limit of its own, which the page shows.
	form, writer, ok := c.formOf(w, r, 3*maxForm)
	if !ok {
		return
	}
	f := &objectForm{kind: k}
	f.Namespace, f.Name = strings.TrimSpace(form.Get("metadata.namespace")), strings.TrimSpace(form.Get("metadata.name"))
	path := "/" + k.id + "/" + newForm
	if name := r.PathValue("name"); name != "" {
		f.Namespace, f.Name, f.Version = r.PathValue("namespace"), name, form.Get("version")
		path = objectURL(k.id, f.Namespace, f.Name) + "/" + editForm
		if f.Version == "" {
			http.Error(w, "the form has no version", http.StatusBadRequest)
			return
		}
	}
	f.YAML = strings.ReplaceAll(form.Get("yaml"), "\r\n", "\n")
	do := form.Get("do")
	if do != reviewForm && do != reviewYAML && do != applyYAML {
		http.Error(w, "do must be form, yaml or apply", http.StatusBadRequest)
		return
	}
	f.readTexts(form)
	written := f.write(r.Context(), writer, do)
	switch {
	case written != nil && do == applyYAML:
		c.hub.wrote(sessionOf(r), func(r *overview.Reading) {
			if err := k.wrote(r, written, false); err != nil {
				c.log.Debug("Show what was written", "kind", k.kind, "err", err)
			}
		})
		to := objectURL(k.id, written.GetNamespace(), written.GetName())
		redirectApplied(w, r, to, f.undoing())
	case written != nil:
		c.again(w, r, http.StatusOK, path, f.page)
	default:
		c.again(w, r, http.StatusUnprocessableEntity, path, f.page)
	}
}

// writeAttempts bounds how often an object is written whose status changes meanwhile.
const writeAttempts = 5

// write writes the object, or has the API server judge it without keeping it. It returns nil if the form has problems.
func (f *objectForm) write(ctx context.Context, k client.Client, do string) *unstructured.Unstructured {
	if do == applyYAML { // that form has no fields
		if o := f.parsed(f.kind.newObject(f.Namespace, f.Name)); o != nil {
			f.take(o, false)
		}
		f.Problems = nil // each attempt has them
	}
	for attempt := 1; ; attempt++ {
		written, err := f.attempt(ctx, k, do)
		if f.Version != "" && apierrors.IsConflict(err) && attempt < writeAttempts {
			continue // the status has changed, or the object, which the next attempt finds
		}
		if err != nil {
			byField(err, f.fieldNames(), f.problem)
		}
		if len(f.Problems) > 0 {
			return nil
		}
		return written
	}
}

// attempt writes what the form has, or has it judged. Whatever fails, the form keeps what the user wrote, in both of its parts.
func (f *objectForm) attempt(ctx context.Context, k client.Client, do string) (*unstructured.Unstructured, error) {
	base := f.kind.newObject(f.Namespace, f.Name)
	before := ""
	if f.Version != "" {
		if err := k.Get(ctx, client.ObjectKeyFromObject(base), base); err != nil {
			return nil, err
		}
		if contentVersion(base) != f.Version {
			return nil, errChanged
		}
		before = yamlOf(base)
	}
	wanted := f.parsed(base)
	if wanted != nil && do == reviewForm {
		wanted = f.applied(wanted)
	}
	if wanted == nil || len(f.Problems) > 0 {
		return nil, nil //nolint:nilnil // the form has the problems
	}
	proposed := wanted.DeepCopy()
	if err := f.send(ctx, k, wanted, do); err != nil {
		return nil, err
	}
	if do == applyYAML && f.Version != "" {
		f.undo = undoOf(base, wanted)
	}
	if do != applyYAML {
		f.take(proposed, do == reviewYAML)
		// The differences are those that the API server makes of it: with its defaults.
		f.Diff, f.Reviewed = diffOf(before, yamlOf(wanted)), f.YAML
	}
	return wanted, nil
}

// send creates or updates an object, and keeps it only to apply it.
func (f *objectForm) send(ctx context.Context, k client.Client, wanted *unstructured.Unstructured, do string) error {
	strict := client.WithFieldValidation(k, metav1.FieldValidationStrict)
	if f.Version == "" {
		if do == applyYAML {
			return strict.Create(ctx, wanted)
		}
		return strict.Create(ctx, wanted, client.DryRunAll)
	}
	if do == applyYAML {
		return strict.Update(ctx, wanted)
	}
	return strict.Update(ctx, wanted, client.DryRunAll)
}

// removeObject deletes the object of the path, if it is the one that the page showed.
func (c *Console) removeObject(w http.ResponseWriter, r *http.Request, k *editedKind) {
	form, writer, ok := c.form(w, r)
	if !ok {
		return
	}
	o := k.newObject(r.PathValue("namespace"), r.PathValue("name"))
	only := client.Preconditions{}
	if sent := form.Get("uid"); sent != "" {
		o.SetUID(types.UID(sent))
		only.UID = new(o.GetUID())
	}
	err := writer.Delete(r.Context(), o, only)
	if err == nil || apierrors.IsNotFound(err) {
		c.hub.wrote(sessionOf(r), func(r *overview.Reading) { _ = k.wrote(r, o, true) }) // a name is no reason to fail
		http.Redirect(w, r, "/"+k.id, http.StatusSeeOther)
		return
	}
	at := objectURL(k.id, o.GetNamespace(), o.GetName()) + "/" + deleteForm
	c.again(w, r, http.StatusUnprocessableEntity, at, func(s *state) *page { return objectDeletionPage(k, o, s, err.Error()) })
}

// byField adds what the API server responds, by the fields that a form has.
func byField(err error, fields []string, add func(field, message string)) {
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Details == nil || len(refusal.Status().Details.Causes) == 0 {
		add("", err.Error())
		return
	}
	for _, cause := range refusal.Status().Details.Causes {
		at, message := fieldOf(cause.Field, fields), cause.Message
		if at != cause.Field {
			message = cause.Field + ": " + message
		}
		add(at, message)
	}
}

// fieldOf is the field of a form at which a cause is shown: the one that it is of or in or, for a rule on several fields, the first of
// them. It is "" for a cause of no field.
func fieldOf(cause string, fields []string) (first string) {
	for _, known := range fields {
		switch {
		case cause == known || strings.HasPrefix(cause, known+".") || strings.HasPrefix(cause, known+"["):
			return known
		case first == "" && strings.Contains(cause, ".") && strings.HasPrefix(known, cause+"."):
			first = known
		}
	}
	return first
}

// form reads what a browser sends, and the client that writes as its user.
func (c *Console) form(w http.ResponseWriter, r *http.Request) (url.Values, client.Client, bool) {
	return c.formOf(w, r, maxForm)
}

// formOf reads a form of so many bytes at most.
func (c *Console) formOf(w http.ResponseWriter, r *http.Request, most int64) (url.Values, client.Client, bool) {
	if c.clientOf == nil {
		http.Error(w, "the console is read-only", http.StatusForbidden)
		return nil, nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	if err := r.ParseForm(); err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, fmt.Sprintf("the form cannot be read: %v", err), status)
		return nil, nil, false
	}
	k, err := c.clientOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return nil, nil, false
	}
	return r.PostForm, k, true
}

// without are the objects of a list, without one.
func without[T client.Object](all []T, o T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(other T) bool {
		return other.GetNamespace() == o.GetNamespace() && other.GetName() == o.GetName()
	})
}
