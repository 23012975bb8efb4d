// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/interruptions"
)

const (
	fieldOwner = "berth-controller-interruptions"
	// creator owns the ConfigMap without data.
	creator = fieldOwner + "-create"
	// callTimeout bounds one call to the API server.
	callTimeout = 5 * time.Second
)

// store reads and writes the ConfigMap. The object that was read is written, in the version that was read: what another leader has
// counted since is not lost, and an object that was deleted does not come back with what it had.
type store struct {
	*Options
	// current is what the ConfigMap has, nil while that is unknown.
	current *interruptions.Table
	// uid and version are those of the object that was read, "" for none.
	uid     types.UID
	version string
	// failed is the last error of its content, which is logged once.
	failed string
}

// read returns what is counted, from the ConfigMap if its content is unknown.
func (s *store) read(ctx context.Context, now time.Time) (interruptions.Table, error) {
	if s.current != nil {
		return *s.current, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := s.Client.CoreV1().ConfigMaps(s.ConfigMap.Namespace).Get(ctx, s.ConfigMap.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.ConfigMap{}
	case err != nil:
		return interruptions.Table{}, fmt.Errorf("read ConfigMap %s: %w", s.ConfigMap, err)
	}
	table, err := interruptions.Decode(object.Data[interruptions.DataKey], s.Keys, now)
	s.report(ctx, err)
	s.current, s.uid, s.version = &table, object.UID, object.ResourceVersion
	return table, nil
}

func (s *store) report(ctx context.Context, err error) {
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != "" && failed != s.failed {
		log.FromContext(ctx).Error(err, "The interruptions that were counted before are lost", "configMap", s.ConfigMap)
	}
	s.failed = failed
}

// write writes what is counted. After a failure the content is unknown: another leader wrote it, it was deleted, or the answer was
// lost.
func (s *store) write(ctx context.Context, t *interruptions.Table) error {
	s.current = nil
	text, err := t.Encode()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if s.uid == "" {
		if err := s.create(ctx); err != nil {
			return err
		}
	}
	written, err := s.apply(ctx, fieldOwner, s.object().WithData(map[string]string{interruptions.DataKey: text}).
		WithUID(s.uid).WithResourceVersion(s.version))
	if err != nil {
		return err
	}
	s.current, s.version = t, written.ResourceVersion
	return nil
}

// create creates the object without data, so that the first write has a precondition, too. Server-side apply has none for an object
// that must not exist, and the right to create has the name only with server-side apply.
func (s *store) create(ctx context.Context) error {
	created, err := s.apply(ctx, creator, s.object())
	switch {
	case err != nil:
		return err
	case created.Data[interruptions.DataKey] != "":
		return fmt.Errorf("write ConfigMap %s: it was written meanwhile", s.ConfigMap)
	}
	s.uid, s.version = created.UID, created.ResourceVersion
	return nil
}

func (s *store) object() *corev1apply.ConfigMapApplyConfiguration {
	return corev1apply.ConfigMap(s.ConfigMap.Name, s.ConfigMap.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "berth"})
}

func (s *store) apply(ctx context.Context, owner string, o *corev1apply.ConfigMapApplyConfiguration) (*corev1.ConfigMap, error) {
	written, err := s.Client.CoreV1().ConfigMaps(s.ConfigMap.Namespace).Apply(ctx, o, metav1.ApplyOptions{FieldManager: owner, Force: true})
	if err != nil {
		return nil, fmt.Errorf("write ConfigMap %s: %w", s.ConfigMap, err)
	}
	return written, nil
}
