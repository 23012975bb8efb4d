// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ApplyWebhook applies a manifest with webhook configurations whose service is replaced by a URL at an address: there is
// no network of Services here. The certificate authority is left to whoever serves.
func (c *Cluster) ApplyWebhook(ctx context.Context, manifest, address string) error {
	b, err := os.ReadFile(manifest)
	if err != nil {
		return fmt.Errorf("apply webhook: %w", err)
	}
	objects, err := decodeObjects(b)
	if err != nil {
		return fmt.Errorf("apply %s: %w", manifest, err)
	}
	for _, o := range objects {
		if err := reachByURL(o, address, nil); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return c.applyObjects(ctx, objects)
}

// reachByURL changes the webhooks of an object, if it has any. Without a certificate authority, they keep theirs.
func reachByURL(o *unstructured.Unstructured, address string, ca []byte) error {
	webhooks, found, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	for i := range webhooks {
		webhook, ok := webhooks[i].(map[string]any)
		if !ok {
			return fmt.Errorf("webhooks[%d] is no object", i)
		}
		path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(webhook, "clientConfig", "service")
		if err := unstructured.SetNestedField(webhook, "https://"+address+path, "clientConfig", "url"); err != nil {
			return err
		}
		if ca == nil {
			continue
		}
		if err := unstructured.SetNestedField(webhook, base64.StdEncoding.EncodeToString(ca), "clientConfig", "caBundle"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}
