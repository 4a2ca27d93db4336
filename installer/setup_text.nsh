; Texts of Upreel's setup in English and Simplified Chinese.

!macro TEXT NAME EN ZH
  LangString ${NAME} ${LANG_ENGLISH} "${EN}"
  LangString ${NAME} ${LANG_SIMPCHINESE} "${ZH}"
!macroend

SetFont /LANG=${LANG_ENGLISH} "Segoe UI" 9
SetFont /LANG=${LANG_SIMPCHINESE} "Microsoft YaHei UI" 9

LicenseLangString LICENCE_FILE ${LANG_ENGLISH} "${LICENCES}/licence_en.txt"
LicenseLangString LICENCE_FILE ${LANG_SIMPCHINESE} "${LICENCES}/licence_zh.txt"

!insertmacro TEXT CAPTION "Upreel ${VERSION} Setup" "Upreel ${VERSION} 安装程序"
!insertmacro TEXT UNCAPTION "Uninstall Upreel" "卸载 Upreel"

!insertmacro TEXT WELCOME_TITLE "Upreel ${VERSION}" "Upreel ${VERSION}"
!insertmacro TEXT WELCOME_TEXT \
  "Upreel upscales and restores video on this computer. Nothing you open leaves it.$\r$\n$\r$\nIt is installed only for your user account and needs no administrator rights.$\r$\n$\r$\n$PreviousVersion" \
  "Upreel 在本机上放大并修复视频。您打开的任何内容都不会离开这台计算机。$\r$\n$\r$\n程序只为当前用户安装，无需管理员权限。$\r$\n$\r$\n$PreviousVersion"
!insertmacro TEXT REPLACES \
  "Version $0 is replaced. Your settings, models and unfinished videos are kept." \
  "将替换版本 $0。您的设置、模型和未完成的视频都会保留。"

!insertmacro TEXT LICENCE_TITLE "Licences" "许可证"
!insertmacro TEXT LICENCE_SUBTEXT "You do not have to accept anything to use Upreel." "使用 Upreel 无需接受任何条款。"
!insertmacro TEXT LICENCE_TOP "Terms for redistributing Upreel:" "转发 Upreel 时适用的条款："
!insertmacro TEXT LICENCE_BOTTOM \
  "The licences of all components are in the program's folder." \
  "所有组成部分的许可证都在程序文件夹中。"
!insertmacro TEXT LICENCE_BUTTON "&Next >" "下一步(&N) >"

!insertmacro TEXT PART_STARTMENU "Start menu" "开始菜单"
!insertmacro TEXT PART_DESKTOP "Desktop icon" "桌面图标"
!insertmacro TEXT PART_OPENWITH "Open with Upreel" "“打开方式”中的 Upreel"
!insertmacro TEXT PART_PATH "Command line" "命令行"
!insertmacro TEXT ABOUT_PROGRAM \
  "The program, with the small Lite model. It works without internet access." \
  "程序本身，附带小型 Lite 模型，无需联网即可使用。"
!insertmacro TEXT ABOUT_STARTMENU "Upreel in the Start menu." "在开始菜单中显示 Upreel。"
!insertmacro TEXT ABOUT_DESKTOP "An icon on the desktop." "在桌面上放置图标。"
!insertmacro TEXT ABOUT_OPENWITH \
  "Upreel appears under Open with for videos and latents. Your default player does not change." \
  "在视频和潜空间文件的“打开方式”中显示 Upreel。您的默认播放器不变。"
!insertmacro TEXT ABOUT_PATH \
  "The command upreel works in every terminal. It is added to the PATH of your user account." \
  "可在任何终端中使用 upreel 命令。它会添加到您用户帐户的 PATH。"
!insertmacro TEXT KIND_FILM "Video" "视频"
!insertmacro TEXT KIND_LATENT "ComfyUI latent" "ComfyUI 潜空间文件"

!insertmacro TEXT MOVING "Copying files" "正在复制文件"
!insertmacro TEXT FINISH_TEXT \
  "Upreel ${VERSION} is installed.$\r$\n$\r$\nIt works right away on the CPU. If you have an NVIDIA GPU, Upreel offers the NVIDIA runtime when it first starts." \
  "Upreel ${VERSION} 已安装。$\r$\n$\r$\n它可以立即使用 CPU 运行。如有 NVIDIA 显卡，首次启动时会提供 NVIDIA 运行库。"

!insertmacro TEXT ASK_CLOSE \
  "Upreel is open in $Folder.$\r$\n$\r$\nClose it now? A video that is still running can be continued afterwards." \
  "Upreel 正在 $Folder 中运行。$\r$\n$\r$\n现在关闭它吗？正在处理的视频稍后可以继续。"
!insertmacro TEXT STILL_OPEN \
  "Upreel is still open. It may be waiting for your answer, or finishing a part of a video.$\r$\n$\r$\nClose its window (or the command line that uses it), then press Retry." \
  "Upreel 仍在运行。它可能正在等待您的回答，或正在完成视频的一段。$\r$\n$\r$\n请关闭它的窗口（或正在使用它的命令行），然后按“重试”。"
!insertmacro TEXT WAITING "Waiting for Upreel to close" "正在等待 Upreel 关闭"

!insertmacro TEXT PROBLEM_RUNNING "Upreel is running." "Upreel 正在运行。"
!insertmacro TEXT PROBLEM_FOREIGN \
  "This folder contains other files:$\r$\n$INSTDIR$\r$\n$\r$\nChoose an empty folder, or a new one." \
  "此文件夹中有其他文件：$\r$\n$INSTDIR$\r$\n$\r$\n请选择空文件夹或新文件夹。"
!insertmacro TEXT PROBLEM_SPACE \
  "Not enough disk space: ${NEEDED_MB} MB are needed, $0 MB are free in$\r$\n$INSTDIR" \
  "空间不足：需要 ${NEEDED_MB} MB，以下位置只剩 $0 MB：$\r$\n$INSTDIR"
!insertmacro TEXT PROBLEM_WRITE \
  "Upreel cannot write to this folder:$\r$\n$INSTDIR$\r$\n$\r$\nChoose another one." \
  "无法写入此文件夹：$\r$\n$INSTDIR$\r$\n$\r$\n请选择其他文件夹。"
!insertmacro TEXT PROBLEM_NO_DRIVE \
  "Choose a folder on a drive of this computer, such as D:\Programs\Upreel." \
  "请选择本机磁盘上的文件夹，例如 D:\Programs\Upreel。"
!insertmacro TEXT PROBLEM_LONG \
  "The path of this folder is too long: at most ${LONGEST_FOLDER} characters." \
  "此文件夹的路径过长：最多 ${LONGEST_FOLDER} 个字符。"
!insertmacro TEXT PROBLEM_DATA \
  "Upreel keeps your settings and models there. Choose another folder." \
  "Upreel 在该处保存您的设置和模型。请选择其他文件夹。"
!insertmacro TEXT PROBLEM_TWICE \
  "Another setup of Upreel is running." "另一个 Upreel 安装程序正在运行。"
!insertmacro TEXT PROBLEM_WINDOWS \
  "Upreel needs Windows 10, version 1809 or newer, 64 bits." \
  "Upreel 需要 64 位 Windows 10 1809 或更高版本。"
!insertmacro TEXT PROBLEM_MOVE \
  "This file could not be copied:$\r$\n$Failed$\r$\n$\r$\nAnother program may be using it. Nothing was changed." \
  "无法复制此文件：$\r$\n$Failed$\r$\n$\r$\n它可能正被其他程序占用。未作任何更改。"
!insertmacro TEXT PROBLEM_LEFT \
  "This could not be removed:$\r$\n$Failed$\r$\n$\r$\nAnother program may be using it." \
  "无法删除：$\r$\n$Failed$\r$\n$\r$\n它可能正被其他程序占用。"
!insertmacro TEXT KEPT_FILES \
  "Files that do not belong to Upreel were kept in $INSTDIR" \
  "已保留不属于 Upreel 的文件：$INSTDIR"

!insertmacro TEXT DATA_TITLE "Your models and settings" "您的模型和设置"
!insertmacro TEXT DATA_SUBTITLE "Select what to remove as well." "勾选需要一并删除的内容。"
!insertmacro TEXT DATA_WHERE \
  "They are in $LOCALAPPDATA\Upreel. What you keep is used again when Upreel is installed later. Your videos and results are never removed." \
  "它们位于 $LOCALAPPDATA\Upreel。保留的内容在以后重新安装 Upreel 时会自动找到。视频和结果绝不会被删除。"
!insertmacro TEXT DATA_MODELS "Models ($0 MB)" "模型（$0 MB）"
!insertmacro TEXT DATA_RUNTIMES "NVIDIA runtimes ($0 MB)" "NVIDIA 运行库（$0 MB）"
!insertmacro TEXT DATA_SETTINGS "Settings, custom presets, unfinished videos and logs" "设置、自定义预设、未完成的视频和日志"
