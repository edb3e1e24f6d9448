// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Warnings counts the Warning events of an operator, by kind and reason.
func Warnings() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "okara_operator_warnings_total", Help: "Number of failures of objects, by kind and reason.",
	}, []string{"kind", "reason"})
}

// Counted is a manager that counts the Warnings of its controllers.
type Counted struct {
	ctrl.Manager
	Warnings *prometheus.CounterVec
}

// GetEventRecorder returns a recorder that counts.
func (m Counted) GetEventRecorder(name string) events.EventRecorder {
	return recorder{m.Manager.GetEventRecorder(name), m.Warnings}
}

// recorder counts the Warnings that it forwards.
type recorder struct {
	events.EventRecorder
	warnings *prometheus.CounterVec
}

// Eventf forwards an event.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if eventType == corev1.EventTypeWarning {
		r.warnings.WithLabelValues(kindOf(regarding), reason).Inc()
	}
	r.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
}

// kindOf returns the kind of an object, which typed objects do not contain.
func kindOf(o runtime.Object) string {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.GetKind()
	}
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndex(name, ".")+1:]
}

// countTime bounds the time for reading all objects from the cache.
const countTime = 5 * time.Second

// Objects counts objects by kind, Ready and reason, on the leader.
type Objects struct {
	Reader  client.Reader // a cache
	Elected <-chan struct{}
	// Lists has an empty list a kind; with ModuleKinds generated ones too.
	Lists []client.ObjectList
}

func objectsDesc() *prometheus.Desc {
	return prometheus.NewDesc("okara_operator_objects", "Objects by kind, whether they are Ready (true, false, unknown), and the reason.", []string{"kind", "ready", "reason"}, nil)
}

// Describe sends the description of the metric.
func (*Objects) Describe(to chan<- *prometheus.Desc) { to <- objectsDesc() }

type figure struct{ kind, ready, reason string }

// Collect counts the objects.
func (m *Objects) Collect(to chan<- prometheus.Metric) {
	select {
	case <-m.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	count := map[figure]int{}
	for _, list := range m.Lists {
		m.count(ctx, list.DeepCopyObject().(client.ObjectList), count)
	}
	for f, n := range count {
		to <- prometheus.MustNewConstMetric(objectsDesc(), prometheus.GaugeValue, float64(n), f.kind, f.ready, f.reason)
	}
}

// count counts a list's objects and its kinds', as far as readable.
func (m *Objects) count(ctx context.Context, list client.ObjectList, into map[figure]int) {
	if err := m.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		into[figureOf(o)]++
		if def, ok := o.(*v1alpha1.ModuleKind); ok && meta.IsStatusConditionTrue(def.Status.Conditions, v1alpha1.ConditionEstablished) {
			objects := &unstructured.UnstructuredList{}
			objects.SetAPIVersion(v1alpha1.KindsGroup + "/" + v1alpha1.KindsVersion)
			objects.SetKind(def.Spec.Names.Kind + "List")
			m.count(ctx, objects, into)
		}
		return nil
	})
}

func figureOf(o runtime.Object) figure {
	f := figure{kindOf(o), "unknown", ""}
	if c := meta.FindStatusCondition(conditionsOf(o), v1alpha1.ConditionReady); c != nil {
		f.ready = strings.ToLower(string(c.Status))
		f.reason = c.Reason
	}
	return f
}

func conditionsOf(o runtime.Object) []metav1.Condition {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return Conditions(u)
	}
	list, _ := reflect.ValueOf(o).Elem().FieldByName("Status").FieldByName("Conditions").Interface().([]metav1.Condition)
	return list
}
