// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/schedule"
	"berth.dev/berth/internal/kube/applyset"
)

var scheduleKind = v1alpha1.SchemeGroupVersion.WithKind("DatabaseBackupSchedule")

// schedules reconciles DatabaseBackupSchedules.
type schedules struct{ Options }

// Reconcile implements reconcile.Reconciler.
func (r *schedules) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := &v1alpha1.DatabaseBackupSchedule{}
	if err := r.Client.Get(ctx, req.NamespacedName, s); err != nil || !r.reconciles(s.Namespace) || s.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := s.DeepCopy()
	if err := r.pin(ctx, s); err != nil {
		return reconcile.Result{}, fmt.Errorf("read Environment %s/%s: %w", s.Namespace, s.Spec.Environment, err)
	}
	next := reconcile.Result{RequeueAfter: resyncInterval}
	if times, err := schedule.Parse(&s.Spec); err != nil {
		r.condition(s, v1alpha1.ReasonInvalidSchedule, err.Error())
	} else if next, err = r.run(ctx, s, times); err != nil {
		return reconcile.Result{}, fmt.Errorf("schedule backups of Environment %s/%s: %w", s.Namespace, s.Spec.Environment, err)
	}
	return unlessConflict(next, r.write(ctx, before, s))
}

func (r *schedules) write(ctx context.Context, before, s *v1alpha1.DatabaseBackupSchedule) error {
	if equality.Semantic.DeepEqual(before.Status, s.Status) {
		return nil
	}
	version, err := applyset.Status(ctx, r.Client, scheduleKind, before, &s.Status, FieldOwner, applyset.OptimisticLock)
	if err != nil || version == "" {
		return err
	}
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionBackupCurrent)
	is := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionBackupCurrent)
	if is.Status == metav1.ConditionFalse && (was == nil || was.Reason != is.Reason) {
		r.Recorder.Event(s, corev1.EventTypeWarning, v1alpha1.EventReasonBackupOverdue, is.Message)
	}
	return nil
}

// run creates the backup that is due, deletes those that are not kept, and returns when the next is due.
func (r *schedules) run(ctx context.Context, s *v1alpha1.DatabaseBackupSchedule, times *schedule.Schedule) (reconcile.Result, error) {
	all, err := r.backups(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, name := range schedule.Expired(all, int(s.Spec.Keep)) {
		i := slices.IndexFunc(all, func(b v1alpha1.DatabaseBackup) bool { return b.Name == name })
		if err := applyset.Delete(ctx, r.Client, &all[i]); err != nil {
			return reconcile.Result{}, err
		}
	}
	now := r.Clock.Now()
	since := s.CreationTimestamp.Time
	if t := s.Status.LastScheduleTime; t != nil {
		since = t.Time
	}
	running := slices.ContainsFunc(all, func(b v1alpha1.DatabaseBackup) bool { return !b.Status.Phase.Ended() })
	observed := s.Status.ObservedGeneration == s.Generation
	if due := times.Due(since, now); !due.IsZero() && !running && mayCreate(s) {
		if err := r.create(ctx, s, due); err != nil {
			return reconcile.Result{}, err
		}
		s.Status.LastScheduleTime = new(metav1.NewTime(due))
	}
	next := r.report(s, times, all, now)
	if !observed {
		next.RequeueAfter = min(next.RequeueAfter, time.Second)
	}
	return next, nil
}

// mayCreate reports whether a schedule creates backups. An image is stored before a backup has it: after an error, another reading could
// have another image.
func mayCreate(s *v1alpha1.DatabaseBackupSchedule) bool {
	pinned := s.Status.ObservedGeneration == s.Generation && s.Status.Image != ""
	return !s.Spec.Suspend && (s.Spec.EncryptionSecretRef == nil || pinned)
}

// backups returns the backups of a schedule, the newest first.
func (r *schedules) backups(ctx context.Context, s *v1alpha1.DatabaseBackupSchedule) ([]v1alpha1.DatabaseBackup, error) {
	list := &v1alpha1.DatabaseBackupList{}
	err := r.Client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha1.DatabaseScheduleLabel: s.Name})
	if err != nil {
		return nil, fmt.Errorf("list DatabaseBackups of namespace %s: %w", s.Namespace, err)
	}
	all := slices.DeleteFunc(list.Items, func(b v1alpha1.DatabaseBackup) bool {
		return b.DeletionTimestamp != nil || b.Spec.Environment != s.Spec.Environment
	})
	schedule.Sort(all)
	return all, nil
}

// pin sets the image of encrypted dumps when a generation, whose author may get the key, is first observed. If there is no database then,
// the generation has no image: whoever creates the Environment later may not be allowed to get the key.
func (r *schedules) pin(ctx context.Context, s *v1alpha1.DatabaseBackupSchedule) error {
	if s.Spec.EncryptionSecretRef == nil {
		s.Status.Image = ""
		return nil
	}
	if s.Status.ObservedGeneration == s.Generation {
		return nil
	}
	image, err := r.databaseImage(ctx, s.Namespace, s.Spec.Environment)
	s.Status.Image = image
	return err
}

// create creates the backup of a time. Its name has the time, so that there is no second one.
func (r *schedules) create(ctx context.Context, s *v1alpha1.DatabaseBackupSchedule, due time.Time) error {
	b := &v1alpha1.DatabaseBackup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-" + due.UTC().Format(render.BackupTime),
			Labels: map[string]string{v1alpha1.DatabaseScheduleLabel: s.Name},
		},
		Spec: v1alpha1.DatabaseBackupSpec{
			Environment: s.Spec.Environment, DatabaseBackupSettings: s.Spec.DatabaseBackupSettings, Image: s.Status.Image,
		},
	}
	err := r.Client.Create(ctx, b, FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		log.FromContext(ctx).Info("Created the DatabaseBackup of a schedule", "backup", b.Name)
	}
	return err
}

// report sets the status, and returns when it changes without an event.
func (r *schedules) report(
	s *v1alpha1.DatabaseBackupSchedule, times *schedule.Schedule, all []v1alpha1.DatabaseBackup, now time.Time,
) reconcile.Result {
	s.Status.LastSuccessfulTime, s.Status.LastBackup = nil, ""
	for i := range all {
		if b := &all[i]; b.Status.Phase == v1alpha1.DatabaseBackupCompleted {
			s.Status.LastSuccessfulTime, s.Status.LastBackup = b.Status.StartedAt, b.Name
			break
		}
	}
	last, reason, message := s.CreationTimestamp.Time, v1alpha1.ReasonBackupNotDue, "no backup completed yet"
	if t := s.Status.LastSuccessfulTime; t != nil {
		last, reason, message = t.Time, v1alpha1.ReasonBackupCompleted, "DatabaseBackup "+s.Status.LastBackup+" completed"
	}
	var maxAge time.Duration
	if h := s.Spec.MaxAgeHours; h != nil {
		maxAge = time.Duration(*h) * time.Hour
	}
	next := []time.Time{times.After(now)}
	if tooOld := times.TooOldAt(last, maxAge); !tooOld.IsZero() && (maxAge > 0 || !s.Spec.Suspend) {
		if now.Before(tooOld) {
			next = append(next, tooOld)
		} else {
			reason = v1alpha1.ReasonBackupTooOld
			message = fmt.Sprintf("%s: no backup was started and completed since %s", message, last.UTC().Format(time.RFC3339))
		}
	}
	r.condition(s, reason, message)
	after := resyncInterval
	for _, t := range next {
		if !t.IsZero() {
			after = min(after, max(t.Sub(now), time.Second))
		}
	}
	return reconcile.Result{RequeueAfter: after}
}

func (r *schedules) condition(s *v1alpha1.DatabaseBackupSchedule, reason, message string) {
	if reason != v1alpha1.ReasonInvalidSchedule && s.Spec.EncryptionSecretRef != nil && s.Status.Image == "" {
		reason = v1alpha1.ReasonInvalidSchedule
		message = fmt.Sprintf("spec.environment: Environment %s did not exist or had no database when this generation was first observed, and "+
			"encrypted dumps run with the image of that time: change the spec, or create the schedule again", s.Spec.Environment)
	}
	status := metav1.ConditionTrue
	if reason == v1alpha1.ReasonBackupTooOld || reason == v1alpha1.ReasonInvalidSchedule {
		status = metav1.ConditionFalse
	}
	s.Status.ObservedGeneration = s.Generation
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionBackupCurrent, Status: status, Reason: reason, Message: applyset.Shorten(message, maxMessage),
		ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now().Truncate(time.Second)),
	})
}
