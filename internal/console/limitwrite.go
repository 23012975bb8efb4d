// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// maxForm bounds what a browser sends.
const maxForm = 256 << 10

// Pages with a form.
const (
	newLimit    = "new"
	editLimit   = "edit"
	deleteLimit = "delete"
)

// limitFormPage is the page of a new limit.
func limitFormPage(path []string, _ url.Values, s *state) (*page, error) {
	if path[0] != newLimit || !s.writable {
		return nil, errNoPage
	}
	return formPage(formOf(&v1alpha1.ResourceLimit{}), s), nil
}

// limitChangePage is the page that edits or deletes a limit.
func limitChangePage(path []string, _ url.Values, s *state) (*page, error) {
	l, err := limitList.find(path, s)
	switch {
	case err != nil:
		return nil, err
	case path[2] == editLimit && s.writable:
		return formPage(formOf(l), s), nil
	case path[2] == deleteLimit && s.writable:
		return deletionPage(l, s, ""), nil
	}
	return nil, errNoPage
}

func formPage(f *limitForm, s *state) *page {
	v := struct {
		*limitForm
		Action, Cancel string
	}{limitForm: f.spare(), Action: "/limits", Cancel: "/limits"}
	title := "New resource limit"
	if f.Version != "" {
		v.Action = objectURL(limitList.id, f.Namespace, f.Name)
		v.Cancel = v.Action
		title = "Edit " + inert(f.Namespace+"/"+f.Name)
	}
	return &page{title: title, parts: append(status(s), &part{id: "form", before: render("limit-form", v), fixed: true})}
}

func deletionPage(l *v1alpha1.ResourceLimit, s *state, problem string) *page {
	v := struct {
		*limitView
		URL, UID, Problem string
	}{limitOf(l), limitList.url(l), string(l.UID), inert(problem)}
	return &page{title: "Delete " + v.Namespace + "/" + v.Name, parts: append(status(s),
		&part{id: "form", before: render("limit-delete", v), fixed: true})}
}

// writeLimit creates a limit, or changes that of the path.
func (c *Console) writeLimit(w http.ResponseWriter, r *http.Request) {
	form, k, ok := c.form(w, r)
	if !ok {
		return
	}
	f, err := readForm(form)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	path, exists := "/limits/"+newLimit, r.PathValue("name") != ""
	if exists {
		f.Namespace, f.Name = r.PathValue("namespace"), r.PathValue("name")
		path = objectURL(limitList.id, f.Namespace, f.Name) + "/" + editLimit
	}
	status := http.StatusUnprocessableEntity
	switch {
	case form.Has("rows"): // the user has filled the spare rows, and gets others
		status = http.StatusOK
	case c.saveLimit(r, k, f, exists):
		http.Redirect(w, r, objectURL(limitList.id, f.Namespace, f.Name), http.StatusSeeOther)
		return
	}
	c.again(w, r, status, path, func(s *state) *page { return formPage(f, s) })
}

// saveLimit writes a limit, and reports whether it is written. Otherwise the form has the problems.
func (c *Console) saveLimit(r *http.Request, k client.Client, f *limitForm, exists bool) bool {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name}}
	if exists {
		if err := k.Get(r.Context(), client.ObjectKeyFromObject(l), l); err != nil {
			f.refused(err)
			return false
		}
		if specVersion(l) != f.Version {
			f.problem("", "the limit was changed since this form was opened. Open it again to see the change")
			return false
		}
	}
	if !f.apply(l) {
		return false
	}
	strict := client.WithFieldValidation(k, metav1.FieldValidationStrict)
	write := func() error { return strict.Create(r.Context(), l) }
	if exists {
		write = func() error { return strict.Update(r.Context(), l) }
	}
	if err := write(); err != nil {
		f.refused(err)
		return false
	}
	c.hub.wrote(sessionOf(r), func(r *overview.Reading) { r.Limits = append(without(r.Limits, l), l) })
	return true
}

// refused adds what the API server responds, by field.
func (f *limitForm) refused(err error) { byField(err, f.fields(), f.problem) }

// fields are the fields that the form has.
func (f *limitForm) fields() []string {
	fields := []string{"metadata.name", "metadata.namespace", "spec.description", "spec.nodeSelector", "spec.nodeAffinity"}
	for _, s := range sizes {
		fields = append(fields, "spec."+s.name)
	}
	return fields
}

// removeLimit deletes the limit of the path, if it is the one that the page showed.
func (c *Console) removeLimit(w http.ResponseWriter, r *http.Request) {
	form, k, ok := c.form(w, r)
	if !ok {
		return
	}
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}}
	uid := client.Preconditions{}
	if sent := form.Get("uid"); sent != "" {
		l.SetUID(types.UID(sent))
		uid.UID = new(l.UID)
	}
	err := k.Delete(r.Context(), l, uid)
	if err == nil || apierrors.IsNotFound(err) {
		// One that is in use is deleted later: the next reading has it again.
		c.hub.wrote(sessionOf(r), func(r *overview.Reading) { r.Limits = without(r.Limits, l) })
		http.Redirect(w, r, "/limits", http.StatusSeeOther)
		return
	}
	c.again(w, r, http.StatusUnprocessableEntity, limitList.url(l)+"/"+deleteLimit, func(s *state) *page {
		return deletionPage(l, s, err.Error())
	})
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
