// SPDX-License-Identifier: Apache-2.0

// Package rig starts the real programs of a cluster for tests, as processes on loopback:
// etcd and kube-apiserver, and with [Cluster.With] also kube-controller-manager and
// Flux's source-, helm- and tofu-controller. They are built, unchanged, from the modules
// below this folder; make has the targets. A test that needs a missing program is
// skipped, and names the target that builds it.
//
// A test binary has one cluster, which starts with the first test that needs it and ends
// with [Main]. Tests are isolated from each other by namespaces.
//
// There is no kubelet: tofu-controller runs tofu as its own child. The module of its API
// types is not published; testdata/tofuapi stands in for it.
package rig
