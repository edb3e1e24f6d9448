// SPDX-License-Identifier: Apache-2.0

// Package format defines the tags and manifests of states, claims, workspaces and marks over
// package oci, in the shapes of package artifact: image manifests with the empty config.
//
// A state version (state.go, tags "state-W-v42" and, as a moving copy, "state-W") has one layer,
// repeated inline up to 32 KiB so that reading it is one request:
//
//	artifactType: application/vnd.opentofu.state.v1
//	layers:
//	- application/vnd.opentofu.statefile.v1[+zstd|+gzip][+encrypted]
//	annotations: org.opentofu.workspace, vnd.okara.state.{version,parent,fence,lineage,serial,…}
//
// A lock claim, its tombstone and the visible marker (lock.go, tags "locked-W-<F>-<x>",
// "unlocked-W-<F>-<x>[-f]", "locked-W") have all in annotations; package statebackend explains why
// they form a lock:
//
//	artifactType: application/vnd.opentofu.lock.v1
//	annotations: vnd.okara.lock.{kind,id,info,fence,nonce,root,beside,reason,who}
//
// A workspace record (workspace.go, tags "workspace-W-<seq>-<hash>", written once) is valid only if
// its name, number and hash match its tag:
//
//	artifactType: application/vnd.okara.workspace.v1
//	annotations: org.opentofu.workspace, vnd.okara.workspace.{seq,nonce,project,tags,description,mode,…}
//
// A configuration that was uploaded for a run (configuration.go, tag "cv-<id>-<16 hex
// digits>-<digest of the manifest>", written once) has one layer:
//
//	artifactType: application/vnd.okara.configuration.v1
//	layers:
//	- application/vnd.okara.configuration.v1.tar+gzip
//
// The marks of a repository (mark.go) record the findings about its registry, and that it is a
// replica. Package foreign reads layouts that other tools wrote.
package format
