// SPDX-License-Identifier: Apache-2.0

// Package fakes is a fake of the cache that the companion controller reads
// CapacityMixes and PodDisruptionBudgets from, and for the writes of statuses.
package fakes

import (
	"context"
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// Cache holds the objects by namespace and name. What it hands out is shared, as
// by a cache that is configured not to copy. It is for one goroutine.
type Cache struct {
	client.Client
	mixes   map[string]map[string]*v1alpha1.CapacityMix
	budgets map[string]map[string]*policyv1.PodDisruptionBudget
	version int
	// Writes counts those of statuses.
	Writes int
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{mixes: map[string]map[string]*v1alpha1.CapacityMix{}, budgets: map[string]map[string]*policyv1.PodDisruptionBudget{}}
}

// Set adds or replaces an object.
func (c *Cache) Set(o client.Object) {
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	switch o := o.(type) {
	case *v1alpha1.CapacityMix:
		put(c.mixes, o.Namespace, o.Name, o)
	case *policyv1.PodDisruptionBudget:
		put(c.budgets, o.Namespace, o.Name, o)
	}
}

func put[T any](all map[string]map[string]T, namespace, name string, o T) {
	if all[namespace] == nil {
		all[namespace] = map[string]T{}
	}
	all[namespace][name] = o
}

// Remove removes an object.
func (c *Cache) Remove(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.CapacityMix:
		delete(c.mixes[o.Namespace], o.Name)
	case *policyv1.PodDisruptionBudget:
		delete(c.budgets[o.Namespace], o.Name)
	}
}

// Mix returns a mix, nil if there is none of that name.
func (c *Cache) Mix(namespace, name string) *v1alpha1.CapacityMix { return c.mixes[namespace][name] }

// Mixes returns all mixes, in no order.
func (c *Cache) Mixes() (all []*v1alpha1.CapacityMix) {
	for _, of := range c.mixes {
		for _, cm := range of {
			all = append(all, cm)
		}
	}
	return all
}

// Get implements client.Reader for mixes.
func (c *Cache) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	cm := c.Mix(name.Namespace, name.Name)
	if cm == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "capacitymixes"}, name.Name)
	}
	*into.(*v1alpha1.CapacityMix) = *cm
	return nil
}

// List implements client.Reader.
func (c *Cache) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	switch into := into.(type) {
	case *v1alpha1.CapacityMixList:
		into.Items = values(c.mixes, o.Namespace)
	case *policyv1.PodDisruptionBudgetList:
		into.Items = values(c.budgets, o.Namespace)
	}
	return nil
}

func values[T any](all map[string]map[string]*T, namespace string) (list []T) {
	if namespace != "" {
		all = map[string]map[string]*T{namespace: all[namespace]}
	}
	for _, of := range all {
		for _, o := range of {
			list = append(list, *o)
		}
	}
	return list
}

// Status implements client.Client.
func (c *Cache) Status() client.SubResourceWriter { return statusWriter{c: c} }

type statusWriter struct {
	client.SubResourceWriter
	c *Cache
}

// Patch is the server-side apply of a mix's status.
func (w statusWriter) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	cm := w.c.Mix(o.GetNamespace(), o.GetName()).DeepCopy()
	cm.Status = v1alpha1.CapacityMixStatus{}
	status := o.(*unstructured.Unstructured).Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &cm.Status); err != nil {
		return err
	}
	w.c.Writes++
	w.c.Set(cm)
	o.SetResourceVersion(cm.ResourceVersion)
	return nil
}
