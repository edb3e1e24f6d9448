// SPDX-License-Identifier: Apache-2.0

// Package plan keeps the bytes of a plan in one Secret or ConfigMap.
package plan

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	TFPlanNameLabel       = "infra.contrib.fluxcd.io/plan-name"
	TFPlanWorkspaceLabel  = "infra.contrib.fluxcd.io/plan-workspace"
	TFPlanSavedAnnotation = "savedPlan"
)

// key is that of the plan in the data of an object.
const key = "tfplan"

// Plan is a plan of a Terraform.
type Plan struct {
	name, namespace, workspace, id string
	content                        []byte
}

func NewFromBytes(name, namespace, workspace, uid, id string, content []byte) (*Plan, error) {
	return &Plan{name, namespace, workspace, id, content}, nil
}

func NewFromSecrets(name, namespace, uid string, found []corev1.Secret) (*Plan, error) {
	if len(found) != 1 {
		return nil, errors.New("a plan is in one Secret")
	}
	return &Plan{name: name, namespace: namespace, content: found[0].Data[key]}, nil
}

func (p *Plan) Bytes() []byte { return p.content }

func (p *Plan) ToSecret(suffix string) ([]*corev1.Secret, error) {
	return []*corev1.Secret{{ObjectMeta: p.meta(suffix), Data: map[string][]byte{key: p.content}}}, nil
}

func (p *Plan) ToConfigMap(suffix string) ([]*corev1.ConfigMap, error) {
	return []*corev1.ConfigMap{{ObjectMeta: p.meta(suffix), Data: map[string]string{key: string(p.content)}}}, nil
}

func (p *Plan) meta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "tfplan-" + p.workspace + "-" + p.name + suffix, Namespace: p.namespace,
		Annotations: map[string]string{TFPlanSavedAnnotation: p.id},
		Labels: map[string]string{
			TFPlanNameLabel:      SafeLabelValue(p.name + suffix),
			TFPlanWorkspaceLabel: SafeLabelValue(p.workspace),
		},
	}
}

// SafeLabelValue shortens what is too long for a label.
func SafeLabelValue(s string) string { return s[:min(63, len(s))] }
