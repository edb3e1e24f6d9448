// SPDX-License-Identifier: Apache-2.0

// Package server is one running `okara serve`: its settings, the registry behind it, the
// services on its one port, and its life from reading the settings to the end of the last
// download.
//
// # One port
//
// A [Front] is everything on the port: one multiplexer over the services of services.go, each
// an [net/http.Handler] and its entries in the discovery document. Handlers get access
// control, limits, recovery from panics and the log as one [service.Kit]. In front of all
// is the screen that keeps web pages out (front.go).
//
// # Settings
//
// [Settings] holds all settings. A file sets its fields by their hcl tags
// ([Settings.Read]); the rest of the file belongs to the [Extension]. Flags and variables
// are bound to the same fields and set afterwards, so the order alone decides which value
// wins. Files that settings name, such as keys, tokens and secrets, are read when the server
// starts; rights and the keys of links are read again when their files change (reload.go).
// Every mistake is a [syntax.SettingError]; for one in the file, it names file and line.
//
// # The registry behind it
//
// The registry is a remote one ([Env]), or the embedded one, which is called in this process
// through a transport (inprocess.go). The rest of the server cannot tell the difference,
// except for blobs that it may open as files.
//
// # Extensions
//
// The platform of instances is not part of this package. It is an [Extension], which adds
// blocks to the file, makes a claim on the core (to be served alone, to keep the keys of
// portals), hooks into decisions about requests, and serves its own routes.
//
// # Life
//
// [Run] opens everything, listens, reports that it is ready, and serves until its context
// ends. Then /readyz fails while the server continues for the grace period, so that load
// balancers notice; downloads may finish, and the storage and the audit log are closed
// last. A depot file is run on its interval by one replica at a time: the lock is in the
// registry (depot.go).
package server
