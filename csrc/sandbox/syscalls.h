// Syscall numbers that the C library's headers or this architecture may lack; -1 where there is no
// such call.
#pragma once

#include <sys/syscall.h>

// Numbers from 424 on are the same on all architectures.
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#define SYS_io_uring_register 427
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#define SYS_futex_wait 455
#define SYS_futex_requeue 456
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

// Calls that newer architectures do not have.
#ifndef SYS_fork
#define SYS_fork (-1)
#define SYS_vfork (-1)
#endif
#ifndef SYS_open
#define SYS_open (-1)
#define SYS_creat (-1)
#define SYS_stat (-1)
#define SYS_lstat (-1)
#define SYS_access (-1)
#define SYS_readlink (-1)
#define SYS_unlink (-1)
#define SYS_rename (-1)
#define SYS_mkdir (-1)
#define SYS_rmdir (-1)
#define SYS_link (-1)
#define SYS_symlink (-1)
#define SYS_getdents (-1)
#define SYS_chmod (-1)
#define SYS_chown (-1)
#define SYS_lchown (-1)
#define SYS_mknod (-1)
#define SYS_utime (-1)
#define SYS_utimes (-1)
#define SYS_futimesat (-1)
#endif
#ifndef SYS_renameat
#define SYS_renameat (-1)
#endif
#ifndef SYS_poll
#define SYS_poll (-1)
#define SYS_select (-1)
#define SYS_pipe (-1)
#define SYS_dup2 (-1)
#define SYS_pause (-1)
#define SYS_alarm (-1)
#define SYS_time (-1)
#define SYS_epoll_create (-1)
#define SYS_epoll_wait (-1)
#define SYS_eventfd (-1)
#define SYS_signalfd (-1)
#define SYS_getpgrp (-1)
#define SYS_inotify_init (-1)
#endif
#ifndef SYS_arch_prctl
#define SYS_arch_prctl (-1)
#define SYS_iopl (-1)
#define SYS_ioperm (-1)
#define SYS_modify_ldt (-1)
#endif
