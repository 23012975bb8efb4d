// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	journalKey   = "moves"
	pacesKey     = "paces"
	writerKey    = "writer"
	journalOwner = "berth-controller-moves"
	// forgetAfter is how long the record of a workload is kept that has no pods.
	forgetAfter = time.Hour
)

// journal is what a new leader must have of moves, in memory and in a
// ConfigMap. It is written before an eviction, by server-side apply to the version
// that was read: a leader that another one has followed cannot write it, and so
// does not evict.
type journal struct {
	*Options
	api *calls
	// changed queues a workload whose moves were read.
	changed func(governing.GroupKey)
	records map[governing.GroupKey]rebalance.Record
	// paces are the moves that began in the last hour, next the same with the move that is about to begin, nil if none is.
	paces rebalance.Paces
	next  *rebalance.Paces
	// version is the resource version of the ConfigMap, "" while there is none.
	version string
	// writer identifies this process.
	writer string
	// seen is the content, with its writer, that was read or written last: what has another one was written by another leader.
	seen map[string]string
	// loaded is set while the version is known, restored once the records of earlier leaders are here, dirty while there is
	// something to write.
	loaded, restored, dirty bool
	// partial is set where not all records of earlier leaders could be decoded.
	partial bool
	// retryAt is when it may be read again after that failed.
	retryAt time.Time
	// failed is the last error, so that it is logged once.
	failed string
}

func newJournal(o *Options, api *calls, changed func(governing.GroupKey)) *journal {
	return &journal{
		Options: o, api: api, changed: changed, records: map[governing.GroupKey]rebalance.Record{}, writer: string(uuid.NewUUID()),
	}
}

// complete reports whether the moves of earlier leaders are known.
func (j *journal) complete() bool { return j.restored && !j.partial }

// isAnothers reports whether another leader has written a content since this one restored what was there before.
func (j *journal) isAnothers(content map[string]string) bool {
	return j.restored && content[writerKey] != j.writer && !maps.Equal(content, j.seen)
}

// note keeps the record of a workload up to date.
func (j *journal) note(r rebalance.Record) {
	key := governing.GroupKey{Namespace: r.Namespace, ID: r.ID}
	old, there := j.records[key]
	switch {
	case !r.Worth() && !there, there && old.Same(&r):
	case !r.Worth():
		j.forget(key)
	default:
		j.records[key] = r
		j.dirty = true
	}
}

// recorded returns the record of a workload, nil if there is none.
func (j *journal) recorded(key governing.GroupKey) *rebalance.Record {
	if r, there := j.records[key]; there {
		return &r
	}
	return nil
}

// forget drops the record of a workload.
func (j *journal) forget(key governing.GroupKey) {
	if _, there := j.records[key]; there {
		delete(j.records, key)
		j.dirty = true
	}
}

// load reads the journal once, and adds the moves that an earlier leader began to the store, so that the budgets
// count them from the first decision on.
func (j *journal) load(ctx context.Context, now time.Time) {
	if j.loaded || j.Journal.Name == "" || now.Before(j.retryAt) {
		return
	}
	var object *corev1.ConfigMap
	err := j.api.bounded(ctx, func(ctx context.Context) (err error) {
		object, err = j.Client.CoreV1().ConfigMaps(j.Journal.Namespace).Get(ctx, j.Journal.Name, metav1.GetOptions{})
		return err
	})
	j.retryAt = now.Add(callTimeout) // if it fails: a reconcile must not wait for what the one before it waited for
	switch {
	case apierrors.IsNotFound(err):
		j.version = ""
	case err != nil:
		j.fail(ctx, fmt.Errorf("read the journal of moves, ConfigMap %s: %w", j.Journal, err))
		return
	case j.isAnothers(object.Data):
		j.fail(ctx, fmt.Errorf("read the journal of moves, ConfigMap %s: another leader has written it", j.Journal))
		return
	default:
		j.version, j.seen = object.ResourceVersion, object.Data
	}
	j.loaded, j.retryAt = true, time.Time{}
	if j.restored {
		j.dirty = true
		return
	}
	j.restored = true
	if object == nil {
		return
	}
	paces, err := rebalance.DecodePaces(object.Data[pacesKey], now)
	if err != nil {
		j.fail(ctx, err)
	}
	j.paces = paces
	records, err := rebalance.DecodeJournal(object.Data[journalKey], now, j.MaxBackoff)
	if err != nil {
		j.fail(ctx, err) // it is written over
		j.partial = true
	}
	for _, r := range records {
		j.restore(r, now)
	}
}

// restore adds what is recorded of a workload to the store, before the workload is reconciled.
func (j *journal) restore(r rebalance.Record, now time.Time) {
	key := governing.GroupKey{Namespace: r.Namespace, ID: r.ID}
	e, known := j.Workloads.Get(key)
	if !known {
		e = rebalance.Entry{Mix: r.Mix, Restored: true, Group: clusterstate.Group{
			Key: key, Governing: &governing.Mix{}, Workload: clusterstate.Workload{
				Kind: r.Kind, Namespace: r.Namespace, Name: r.Name,
				Revision: r.Revision, UID: key.Owner(),
			},
		}}
	}
	j.records[key] = r
	j.Workloads.Put(rebalance.Recall(e, r, now))
	j.changed(key)
}

// recordMove writes a move of a workload down before it is begun, and counts it in the paces. It returns an obstacle if that is not
// possible: what the workload comes to is noted in the end.
func (j *journal) recordMove(ctx context.Context, r rebalance.Record, pace *rebalance.PaceKey) error {
	j.note(r)
	j.next = new(j.paces.With(pace, j.Clock.Now()))
	j.dirty = true
	if err := j.write(ctx); err != nil {
		return rebalance.ReasonUnrecorded.Obstacle(rebalance.HoldRefused, "%v", err)
	}
	return nil
}

// moveEnds ends what recordMove began: the move counts if it began.
func (j *journal) moveEnds(began bool) {
	switch {
	case j.next == nil:
	case began:
		j.paces, j.next = *j.next, nil
	default:
		j.next, j.dirty = nil, true
	}
}

// write writes what has changed.
func (j *journal) write(ctx context.Context) error {
	switch {
	case j.Journal.Name == "" || j.loaded && !j.dirty:
		return nil
	case !j.loaded:
		return errors.New(j.failed)
	}
	j.prune()
	data, err := j.encode()
	if err != nil {
		return err
	}
	written, err := j.apply(ctx, data)
	if err != nil {
		// Another version, or none, or one of which the answer was lost: it is read again.
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || unanswered(err) {
			j.loaded = false
			j.changed(everything)
		}
		err = fmt.Errorf("write the journal of moves, ConfigMap %s: %w", j.Journal, err)
		j.fail(ctx, err)
		return err
	}
	j.version, j.seen, j.dirty, j.failed = written.ResourceVersion, written.Data, false, ""
	return nil
}

// encode returns what is written: with the move that begins, if one does.
func (j *journal) encode() (map[string]string, error) {
	records := make([]rebalance.Record, 0, len(j.records))
	for _, r := range j.records {
		records = append(records, r)
	}
	text, err := rebalance.EncodeJournal(records)
	if err != nil {
		return nil, err
	}
	counted := &j.paces
	if j.next != nil {
		counted = j.next
	}
	paces, err := rebalance.EncodePaces(counted, j.Clock.Now())
	if err != nil {
		return nil, err
	}
	return map[string]string{journalKey: text, writerKey: j.writer, pacesKey: paces}, nil
}

// apply writes the ConfigMap, in the version that was read last.
func (j *journal) apply(ctx context.Context, data map[string]string) (written *corev1.ConfigMap, err error) {
	object := corev1apply.ConfigMap(j.Journal.Name, j.Journal.Namespace).WithData(data).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "berth"})
	if j.version != "" {
		object.WithResourceVersion(j.version)
	}
	err = j.api.bounded(ctx, func(ctx context.Context) (err error) {
		written, err = j.Client.CoreV1().ConfigMaps(j.Journal.Namespace).Apply(ctx, object,
			metav1.ApplyOptions{FieldManager: journalOwner, Force: true})
		return err
	})
	return written, err
}

// prune forgets workloads that have had no pods for long.
func (j *journal) prune() {
	for key, r := range j.records {
		if _, known := j.Workloads.Get(key); !known && j.Clock.Since(time.Unix(r.Updated, 0)) > max(forgetAfter, 2*j.MaxBackoff) {
			delete(j.records, key)
		}
	}
}

// fail logs an error once.
func (j *journal) fail(ctx context.Context, err error) {
	if text := err.Error(); text != j.failed {
		j.failed = text
		log.FromContext(ctx).Error(err, "Cannot keep the journal of moves: nothing is moved without it")
	}
}
